// The program that carries out E2B's requests for files inside a job, and the cells of one context.
#pragma once

#include <string_view>

namespace callgate::jobs::http {

/// For python3, behind `regular_program`: its argument is the request's path. For files, stdin has one line
/// of JSON about the request, then its body, and the answer is one line. For `/contexts` each further line of
/// stdin is a cell or the interrupt of one, and what a cell tells are lines.
///
/// It runs under the job's rules, and so does what it starts. A cell can write lines itself, and then
/// deceives its own client.
inline constexpr std::string_view e2b_program = R"py(
import sys
# Jobs of others write the work directory: no module is taken from there.
beginning = [one for one in sys.path[:1] if one == ""]
del sys.path[:len(beginning)]
import base64, codecs, datetime, errno, json, os, re, signal, stat

MAX_ENTRIES, MAX_FILE = 10_000, 64 << 20
STATUS = {"invalid_argument": 400, "permission_denied": 403, "not_found": 404, "already_exists": 409, "resource_exhausted": 429,
          "internal": 500, "unimplemented": 501}

class Failed(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code

def failure(error, files=False):
    for kind, code in ((FileNotFoundError, "not_found"), (PermissionError, "permission_denied"), (FileExistsError, "already_exists"),
                       ((ValueError, KeyError, TypeError, NotADirectoryError, IsADirectoryError), "invalid_argument"),
                       (Exception, "internal")):
        if isinstance(error, kind):
            break
    code = getattr(error, "code", code)
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    status = 507 if full else STATUS[code]
    message = f"{error.args[0]}: missing" if isinstance(error, KeyError) else str(error)
    return {"status": status, "answer": {"code": status if files else code, "message": message}}

def line_of(told):
    return json.dumps(told, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"

def path_of(text):
    if not isinstance(text, str) or not text:
        raise ValueError("path: expected a text that is not empty")
    return os.path.abspath(os.path.expanduser(text))

def name_of(module, find, number):
    try:
        return getattr(__import__(module), find)(number)[0]
    except (KeyError, OSError):
        return str(number)

def entry(path):
    about = os.lstat(path)
    kind = {stat.S_IFREG: "FILE", stat.S_IFDIR: "DIRECTORY", stat.S_IFLNK: "SYMLINK"}.get(stat.S_IFMT(about.st_mode), "UNSPECIFIED")
    made = {"name": os.path.basename(path), "type": "FILE_TYPE_" + kind, "path": path, "size": str(about.st_size),
            "mode": stat.S_IMODE(about.st_mode), "permissions": stat.filemode(about.st_mode), "owner": name_of("pwd", "getpwuid", about.st_uid),
            "group": name_of("grp", "getgrgid", about.st_gid),
            "modifiedTime": datetime.datetime.fromtimestamp(about.st_mtime, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    if kind == "SYMLINK":
        made.update(isSymlink=True, symlinkTarget=os.readlink(path))
    return made

def list_dir(asked):
    top, depth, found = path_of(asked.get("path")), asked.get("depth", 0) or 1, []
    if type(depth) is not int or depth < 1:
        raise ValueError("depth: expected a number from 1")
    waiting = [(top, 1)]
    while waiting:
        place, level = waiting.pop()
        for name in sorted(os.listdir(place)):
            try:
                found.append(entry(os.path.join(place, name)))
            except FileNotFoundError:  # it has gone meanwhile
                continue
            if len(found) > MAX_ENTRIES:
                raise Failed("resource_exhausted", f"{top} has more than {MAX_ENTRIES} entries")
            if found[-1]["type"] == "FILE_TYPE_DIRECTORY" and level < depth:
                waiting.append((found[-1]["path"], level + 1))
    return {"entries": found}

def make_dir(asked):
    path = path_of(asked.get("path"))
    os.makedirs(path)
    return {"entry": entry(path)}

def move(asked):
    source, target = path_of(asked.get("source")), path_of(asked.get("destination"))
    os.lstat(source)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(source, target)
    return {"entry": entry(target)}

def remove(asked):
    path = path_of(asked.get("path"))
    if not os.path.lexists(path):
        return {}
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil
        shutil.rmtree(path)
    else:
        os.remove(path)
    return {}

CALLS = {"Stat": lambda asked: {"entry": entry(path_of(asked.get("path")))}, "ListDir": list_dir, "MakeDir": make_dir, "Move": move,
         "Remove": remove}

def query_of(text):
    from urllib.parse import parse_qsl
    pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=10) if text else []
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a parameter is there twice")
    for name in dict(pairs):
        if name != "path":
            raise Failed("unimplemented", f"the parameter {name} is not offered here: all runs as the user that serves, and a token lets in")
    return dict(pairs)

def read_file(query):
    with open(regular(path_of(query["path"]), os.O_RDONLY), "rb") as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise Failed("resource_exhausted", f"{query['path']}: longer than {MAX_FILE} bytes")
    return data

def parts(kind, body):
    """File names and contents of multipart/form-data."""
    found = re.fullmatch(r'multipart/form-data; *boundary="?([^";\s]{1,200})"?', kind)
    first, *rest = (b"\r\n" + body).split(b"\r\n--" + found[1].encode()) if found else [b""]
    if first or len(rest) < 2 or rest[-1] not in (b"--", b"--\r\n"):
        raise ValueError("expected multipart/form-data with a boundary, and parts between its lines")
    for part in rest[:-1]:
        about, empty, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'(?i)\r\ncontent-disposition: form-data; name="file"; filename="([^"]*)"', about)
        if not name or not empty:
            raise ValueError('expected parts with name="file" and a filename')
        text = name[1].decode()
        for byte, sign in ("%22", '"'), ("%0D", "\r"), ("%0A", "\n"):
            text = text.replace(byte, sign)
        yield text, content

def write_files(query, kind, body):
    if kind == "application/octet-stream":
        files = [(query["path"], body)]
    else:
        files = list(parts(kind, body))
        if "path" in query:
            if len(files) != 1:
                raise ValueError("path: there is more than one file")
            files = [(query["path"], files[0][1])]
    made = []
    for name, content in files:
        path = path_of(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(content)
        made.append({"name": os.path.basename(path), "type": "file", "path": path})
    return made

def carry_out(path, about, body):
    files = path == "/files"
    try:
        if not files:
            return {"status": 200, "answer": CALLS[path.rpartition("/")[2]](json.loads(body))}
        query = query_of(about["query"])
        if about["method"] == "POST":
            return {"status": 200, "answer": write_files(query, about["type"], body)}
        return {"status": 200, "base64": base64.b64encode(read_file(query)).decode()}
    except Exception as error:
        return failure(error, files)

def serve():
    import ast, asyncio, builtins, inspect, io, linecache, queue, secrets, threading, time, traceback, types
    source, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", 0)
    guard, cells, skipped, mark = threading.Lock(), queue.Queue(), set(), b"\0" + secrets.token_hex(16).encode()
    current, count = 0, 0

    def say(**told):
        with guard:
            out.write(line_of(told))

    try:
        asked = json.loads(source.readline())
        os.chdir(asked["cwd"])
        say(language="python", cwd=os.getcwd())
    except Exception as error:
        return say(**failure(error))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)

    def relay(descriptor, kind, seen):
        decoder, left = codecs.getincrementaldecoder("utf-8")("backslashreplace"), b""
        def emit(data, last=False):
            if text := decoder.decode(data, last):
                say(type=kind, text=text, timestamp=time.time_ns())
        while data := os.read(descriptor, 65536):
            left += data
            while (at := left.find(mark)) >= 0:
                emit(left[:at], True)
                decoder.reset()
                left = left[at + len(mark):]
                seen.release()
            at = left.rfind(b"\0", max(0, len(left) - len(mark) + 1))
            at = len(left) if at < 0 else at
            emit(left[:at])
            left = left[at:]

    ends = []
    for number, kind in (1, "stdout"), (2, "stderr"):
        reader, writer = os.pipe()
        os.dup2(writer, number)
        ends.append((os.dup(writer), threading.Semaphore(0)))
        os.close(writer)
        threading.Thread(target=relay, args=(reader, kind, ends[-1][1]), daemon=True).start()
    for stream in sys.stdout, sys.stderr:
        stream.reconfigure(line_buffering=True, errors="backslashreplace")

    def settle():
        """Waits until what the cell wrote has been told."""
        for stream in sys.__stdout__, sys.__stderr__:
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        for writer, seen in ends:
            os.write(writer, mark)
            seen.acquire()

    def show(value, main=False):
        if value is None:
            return
        made = {"text": repr(value)}
        for name in "html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript":
            method = getattr(type(value), f"_repr_{name}_", None)
            data = method(value) if callable(method) else None
            if data is not None:
                made[name] = base64.b64encode(data).decode() if isinstance(data, bytes) else data
        say(type="result", is_main_result=main, **made)

    def show_figures():
        plot = sys.modules.get("matplotlib.pyplot")
        for number in plot.get_fignums() if plot else ():
            figure, image = plot.figure(number), io.BytesIO()
            figure.savefig(image, format="png", bbox_inches="tight")
            say(type="result", is_main_result=False, text=repr(figure), png=base64.b64encode(image.getvalue()).decode())
            plot.close(figure)

    module = types.ModuleType("__main__")
    module.display = lambda *values: [show(one) for one in values] and None
    keep, sys.modules["__main__"], loop = sys.modules["__main__"], module, None
    sys.argv, sys.path[:0] = [""], beginning
    os.environ.setdefault("MPLBACKEND", "Agg")

    def evaluate(tree, name, mode):
        nonlocal loop
        code = compile(tree, name, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(code, module.__dict__)
        if not code.co_flags & inspect.CO_COROUTINE:
            return value
        loop = loop or asyncio.new_event_loop()
        return loop.run_until_complete(value)

    def run(code):
        name = f"<cell {count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        evaluate(tree, name, "exec")
        if last:
            show(evaluate(ast.Expression(last.value), name, "eval"), True)
        show_figures()

    def tell(error):
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        try:
            value, text = str(error), "".join(traceback.format_exception(type(error), error, trace))
        except Exception as other:
            value, text = f"<{type(other).__name__} while it was told>", ""
        say(type="error", name=type(error).__name__, value=value, traceback=text)

    def interrupted(*_):
        if current:
            raise KeyboardInterrupt

    def listen():
        for line in source:
            asked = json.loads(line)
            if "interrupt" not in asked:
                cells.put(asked)
                continue
            skipped.add(asked["interrupt"])
            if asked["interrupt"] == current:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        os._exit(0)

    signal.signal(signal.SIGINT, interrupted)
    for one in signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE:
        signal.signal(one, signal.SIG_DFL)
    threading.Thread(target=listen, daemon=True).start()
    while True:
        asked = cells.get()
        if asked["id"] not in skipped:
            before = dict(os.environ)
            count += 1
            say(type="number_of_executions", execution_count=count)
            try:
                try:
                    current = asked["id"]
                    if current in skipped:
                        raise KeyboardInterrupt
                    os.environ.update(asked["env_vars"])
                    run(asked["code"])
                finally:
                    current = 0
            except BaseException as error:
                tell(error)
            for name in asked["env_vars"]:
                os.environ.pop(name, None)
                if name in before:
                    os.environ[name] = before[name]
            settle()
        skipped.discard(asked["id"])
        say(type="end_of_execution")

if sys.argv[1] == "/contexts":
    serve()
else:
    about = json.loads(sys.stdin.buffer.readline())
    told = carry_out(sys.argv[1], about, sys.stdin.buffer.read())
    sys.stdout.buffer.write(line_of(told))
    sys.stdout.buffer.flush()
# callgate ends what is left: threads and open pipes delay nothing.
os._exit(0)
)py";

}  // namespace callgate::jobs::http
