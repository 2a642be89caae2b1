// The process of the extensions: it gets the connection from the server, and works in the tree.
'use strict';
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const run = (program, ...words) => execFileSync(program, words, { encoding: 'utf8' }).trim();

/// Resolves with the name once something of this name is seen to change.
const changed = (directory, name) => new Promise((seen) => {
    const watcher = fs.watch(directory, (event, what) => { if (what === name) { watcher.close(); seen(what); } });
});

const act = {
    settings: () => JSON.parse(fs.readFileSync('.vscode/settings.json', 'utf8'))['files.autoSave'],
    list: () => fs.readdirSync('.', { withFileTypes: true }).filter((one) => one.isDirectory()).map((one) => one.name).sort().join(' '),
    search: () => run('grep', '-rn', 'second', 'src'),
    status: () => run('git', 'status', '--short', '--', 'src'),
    watch: async () => {
        const seen = changed('src', 'made.txt');
        fs.writeFileSync('src/made.txt', 'made\n');
        return `changed ${await seen}`;
    },
    // In place, as for a file with other names; and by a new file, as where nothing may be lost.
    save: () => {
        fs.writeFileSync('src/notes.txt', 'first line\nsaved line\n', { flag: 'r+' });
        fs.truncateSync('src/notes.txt', 22);
        return run('git', 'diff', '--stat', '--', 'src');
    },
    replace: () => {
        const { mode } = fs.statSync('src/made.txt');
        fs.writeFileSync('src/made.txt.new', 'replaced\n', { mode });
        const file = fs.openSync('src/made.txt.new', 'r+');
        fs.fdatasyncSync(file);
        fs.closeSync(file);
        fs.copyFileSync('src/made.txt', path.join(process.argv[2], 'backup'), fs.constants.COPYFILE_FICLONE);
        fs.renameSync('src/made.txt.new', 'src/made.txt');
        return fs.readFileSync('src/made.txt', 'utf8').trim();
    },
    terminal: () => run('script', '-qec', 'test -t 1 && stty size >/dev/null && echo in a terminal', '/dev/null'),
    // Commands of the terminal reach the window by a socket.
    hook: () => new Promise((done) => {
        const name = path.join(process.env.TMPDIR || os.tmpdir(), `editor-ipc-${process.pid}.sock`);
        const hook = net.createServer((one) => { one.end('opened'); hook.close(); });
        hook.listen(name, () => net.connect(name).on('data', (text) => done(String(text))));
    }),
    'open-settings': () => {
        try { fs.closeSync(fs.openSync('.vscode/settings.json', 'r+')); } catch (error) { if (error.code !== 'EACCES') throw error; }
        return 'opened or refused';
    },
    end: () => process.exit(0),
};

process.on('message', (word, socket) => {
    let asked = '';
    socket.setEncoding('utf8');
    socket.on('data', async (text) => {
        asked += text;
        for (let end; (end = asked.indexOf('\n')) >= 0;) {
            const name = asked.slice(0, end);
            asked = asked.slice(end + 1);
            socket.write(`${name}: ${await act[name]()}\0`);
        }
    });
    socket.write('connected\0');
});
process.send('ready');
