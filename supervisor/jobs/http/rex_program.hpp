// The program that carries out SWE-ReX's requests inside a job: one request, or those of a session.
#pragma once

#include <string_view>

namespace callgate::jobs::http {

/// For python3: its argument is the request's path. It reads the request from stdin and writes the answer as
/// one line. For `/create_session` each further line of stdin is an action.
///
/// It runs under the job's rules, as everything that it starts. A session has a terminal of its own with
/// bash. The prompt tells the exit status. It holds a random word, so that no output ends a command by
/// chance. A session's own code can print that word, and then deceives its own client.
inline constexpr std::string_view rex_program = R"py(
import codecs, errno, io, json, os, pty, re, secrets, select, shlex, shutil, signal, stat, subprocess, sys, termios, time, zipfile
from pathlib import Path

MAX_OUTPUT, MAX_FILE = 10 << 20, 64 << 20

class Failed(Exception):
    def __init__(self, kind, message, **extra):
        super().__init__(message)
        self.kind, self.extra = kind, extra

def rex(name, message, **extra):
    return Failed("swerex.exceptions." + name, message, **extra)

def failure(error):
    kind = getattr(error, "kind", None) or type(error).__module__ + "." + type(error).__name__
    return {"swerexception": {"message": str(error), "class_path": kind, "traceback": "", "extra_info": getattr(error, "extra", {})}}

def say(answer):
    text = json.dumps(answer, ensure_ascii=False)
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()

def with_reason(asked, message):
    return f"{asked['error_msg']}: {message}" if asked.get("error_msg") else message

def execute(asked):
    timeout = asked.get("timeout")
    child = subprocess.Popen(asked["command"], shell=bool(asked.get("shell")), env=asked.get("env"), cwd=asked.get("cwd"),
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
                             stderr=subprocess.STDOUT if asked.get("merge_output_streams") else subprocess.PIPE)
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise rex("CommandTimeoutError", f"Timeout ({timeout}s) exceeded while running command") from None
    told = {"stdout": out.decode(errors="backslashreplace"), "stderr": (err or b"").decode(errors="backslashreplace"),
            "exit_code": child.returncode}
    if asked.get("check") and child.returncode:
        raise rex("NonZeroExitCodeError", with_reason(asked, f"Command {asked['command']!r} failed with exit code {child.returncode}. "
                                                      f"Stdout:\n{told['stdout']!r}\nStderr:\n{told['stderr']!r}"))
    return told

def read_file(asked):
    if os.path.isdir(asked["path"]):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), asked["path"])
    with open(regular(asked["path"], os.O_RDONLY), encoding=asked.get("encoding"), errors=asked.get("errors")) as file:
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise ValueError(f"{asked['path']}: longer than {MAX_FILE} characters")
    return {"content": content}

def opened(path, mode):
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), mode)

def write(path, mode, content):
    with opened(path, mode) as file:
        file.write(content)

def unzip(archive, target):
    """ZipFile.extractall waits for a FIFO that stands at a name."""
    for one in archive.infolist():
        path = target.joinpath(*(name for name in one.filename.split("/") if name not in ("", ".", "..")))
        if one.is_dir():
            path.mkdir(parents=True, exist_ok=True)
        else:
            with archive.open(one) as source, opened(path, "wb") as file:
                shutil.copyfileobj(source, file)

def write_file(asked):
    write(Path(asked["path"]), "w", asked["content"])
    return {}

def upload(body):
    head, _, body = body.partition(b"\r\n\r\n")
    found = re.search(rb'boundary="?([^";\s]+)', head)
    if not found:
        raise ValueError("expected multipart/form-data with a boundary")
    fields = {}
    for part in (b"\r\n" + body).split(b"\r\n--" + found[1])[1:]:
        about, _, content = part.partition(b"\r\n\r\n")
        if name := re.search(rb'(?i)content-disposition:[^\r\n]*[; ]name="([^"]*)"', about):
            fields[name[1].decode()] = content
    target = Path(fields["target_path"].decode())
    if fields.get("unzip", b"").lower() in (b"true", b"1"):
        target.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(io.BytesIO(fields["file"])) as archive:
            unzip(archive, target)
    else:
        write(target, "wb", fields["file"])
    return {}

class Session:
    def __init__(self, asked):
        self.buffer, self.decoder, self.busy = "", codecs.getincrementaldecoder("utf-8")("backslashreplace"), False
        word = secrets.token_hex(16)
        self.prompt = re.compile("SHELLPS1PREFIX" + word + r":(\d+):", re.DOTALL)
        self.command = Path(os.environ.get("TMPDIR", "/tmp")) / f".command-{word}"
        prompt = f"SHELLPS1PREFIX{word}:$?:"
        pid, self.terminal = pty.fork()
        if pid == 0:
            self.quiet(0)
            # A service that was started in the background may ignore some, and every program of the session would.
            for one in signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGPIPE:
                signal.signal(one, signal.SIG_DFL)
            os.execvpe("bash", ["bash"], {"TERM": "dumb", **os.environ, "PS1": prompt, "PS2": "", "PS0": ""})
        sources = [f"source {path}" for path in asked.get("startup_source") or []]
        self.send(" ; ".join(["bind 'set enable-bracketed-paste off' 2>/dev/null", *sources,
                              f"unset PROMPT_COMMAND; export PS1={shlex.quote(prompt)} PS2='' PS0=''"]))
        self.started = self.prompt.sub("", self.settle(30 + float(asked.get("startup_timeout") or 1)))

    @staticmethod
    def quiet(terminal):
        state = termios.tcgetattr(terminal)
        state[3] &= ~termios.ECHO
        termios.tcsetattr(terminal, termios.TCSANOW, state)

    def settle(self, timeout=30):
        """Waits for the last of the prompts that are on the way. Returns what came before."""
        word = "SETTLED" + secrets.token_hex(16)
        self.send(f"stty -echo; echo {word[:16]}''{word[16:]}")
        output = self.expect([word], timeout, prompts=False)[0]
        self.expect([], timeout)
        return output

    def send(self, line):
        self.write(line.encode() + b"\n")

    def write(self, data):
        while data:
            readable, writable, _ = select.select([self.terminal], [self.terminal], [])
            if readable:
                self.read()
            if writable:
                data = data[os.write(self.terminal, data[:1024]):]

    def read(self):
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            data = b""
        if not data:
            raise Failed("pexpect.exceptions.EOF", "the session's shell has ended")
        self.buffer += self.decoder.decode(data)
        if len(self.buffer) > 2 * MAX_OUTPUT:
            self.buffer = self.buffer[:MAX_OUTPUT] + "\n[callgate: more output was dropped]\n" + self.buffer[-4096:]

    def expect(self, patterns, timeout, prompts=True):
        """What came before the first match of the prompt or of a pattern, the pattern, and the exit status that the prompt told."""
        deadline = None if timeout is None else time.monotonic() + timeout
        wanted = [(one, re.compile(one, re.DOTALL)) for one in patterns]
        if prompts:
            wanted.append(("SHELLPS1PREFIX", self.prompt))
        begin = 0
        while True:
            found = [(match.start(), order, name, match) for order, (name, one) in enumerate(wanted) if (match := one.search(self.buffer, begin))]
            if found:
                at, _, name, match = min(found, key=lambda one: one[:2])
                before, self.buffer = self.buffer[:at], self.buffer[match.end():]
                prompted = match.re is self.prompt
                self.busy = self.busy and not prompted
                text = re.sub(r"\x1B[@-_][0-?]*[ -/]*[@-~]", "", before).replace("\r\n", "\n")
                return text, name, int(match[1]) if prompted else None
            begin = max(0, len(self.buffer) - 4096)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise TimeoutError
            self.read()

    def interrupt(self, asked):
        expected, timeout = asked.get("expect") or [], asked.get("timeout", 0.2)
        for _ in range(asked.get("n_retry", 3)):
            os.write(self.terminal, b"\x03")
            try:
                output, name, _ = self.expect(expected, timeout)
            except TimeoutError:
                continue
            return {"output": (output + self.rest(name)).strip(), "exit_code": 0, "expect_string": name}
        try:
            os.write(self.terminal, b"\x1a")
            output = self.expect(expected, timeout)[0]
            self.send("kill -9 %1")
            more, name, _ = self.expect(expected, timeout)
            return {"output": (output + more + self.rest()).strip(), "exit_code": 0, "expect_string": name}
        except TimeoutError:
            raise Failed("pexpect.exceptions.TIMEOUT", "Failed to interrupt session") from None

    def rest(self, found=""):
        """What else an interrupted command and the shell write. Each interrupt of a shell that waits makes one more prompt."""
        output = ""
        for _ in range(10 if found == "SHELLPS1PREFIX" else 0):
            try:
                output += self.settle(2)
                return re.sub(r"SETTLED[0-9a-f]{32}\n", "", self.prompt.sub("", output))
            except TimeoutError:  # an interrupt came late, and took the line with it
                continue
        while True:
            try:
                output += self.expect([], 0.3)[0]
            except TimeoutError:
                return output

    def run(self, asked):
        command, timeout, check = asked["command"], asked.get("timeout"), asked.get("check", "raise")
        interactive, leaves = asked.get("is_interactive_command"), asked.get("is_interactive_quit")
        if not interactive and not leaves:
            told = subprocess.run(["bash", "-n"], input=command.encode(), capture_output=True)
            if told.returncode:
                out, err = told.stdout.decode(errors="backslashreplace"), told.stderr.decode(errors="backslashreplace")
                raise rex("BashIncorrectSyntaxError", f"Error (exit code {told.returncode}) while checking bash command \n{command!r}\n"
                          f"---- Stderr ----\n{err}\n---- Stdout ----\n{out}", bash_stdout=out, bash_stderr=err)
        try:
            if self.busy and not interactive and not leaves:
                self.expect([], timeout)
            if interactive or leaves:
                self.send(command)
            else:
                self.command.write_text(command + "\n")
                self.send(f". {shlex.quote(str(self.command))}")
            self.busy = True
            output, name, code = self.expect(asked.get("expect") or [], timeout)
        except TimeoutError:
            raise rex("CommandTimeoutError", f"timeout after {timeout} seconds while running command {command!r}") from None
        if leaves:
            self.settle()
        if interactive:
            output = output.lstrip().removeprefix(command).strip()
        if interactive or leaves:
            return {"output": output, "exit_code": 0, "expect_string": name}
        if check == "raise" and code != 0:
            if code is None:
                raise rex("NoExitCodeError", f"the command goes on: {name!r} was found in its output")
            raise rex("NonZeroExitCodeError", with_reason(asked, f"Command {command!r} failed with exit code {code}. "
                                                          f"Here is the output:\n{output!r}"))
        return {"output": output, "exit_code": None if check == "ignore" else code, "expect_string": name}

def act(session, asked):
    told = session.interrupt(asked) if asked.get("action_type") == "bash_interrupt" else session.run(asked)
    return {**told, "failure_reason": "", "session_type": "bash"}

def serve():
    session = None
    for line in iter(sys.stdin.buffer.readline, b""):
        try:
            asked = json.loads(line)
            if session is None:
                session = Session(asked)
                say({"output": session.started, "session_type": "bash"})
            else:
                say(act(session, asked))
        except Exception as error:
            say(failure(error))
            if session is None or getattr(error, "kind", "") == "pexpect.exceptions.EOF":
                return

path = sys.argv[1]
if path == "/create_session":
    serve()
else:
    one = {"/execute": execute, "/read_file": read_file, "/write_file": write_file, "/upload": upload}[path]
    body = sys.stdin.buffer.read()
    try:
        say(one(body if one is upload else json.loads(body)))
    except Exception as error:
        say(failure(error))
# callgate ends what is left: threads and open pipes delay nothing.
os._exit(0)
)py";

}  // namespace callgate::jobs::http
