// The server: one connection, which is upgraded, and then belongs to the process of the extensions.
'use strict';
const { fork } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');

const data = process.argv[2];
fs.writeFileSync(path.join(data, 'lock'), 'held', { flag: 'wx', mode: 0o600 });
const server = http.createServer((request, response) => response.end(`version of ${request.url}`));
server.on('upgrade', (request, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
    const host = fork(path.join(__dirname, 'extensions.js'), [data], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    host.on('message', (word) => word === 'ready' && host.send('socket', socket, () => socket.destroy()));
    host.on('exit', (code) => {
        fs.unlinkSync(path.join(data, 'lock'));
        console.log('the extensions ended with', code);
        server.close();
        process.exit(code);
    });
});
server.listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    http.get({ port, host: '127.0.0.1', path: '/version' }, (response) => {
        response.setEncoding('utf8');
        response.on('data', (text) => console.log(text));
        response.on('end', () => window(port));
    });
});

/// The window: it asks for each thing in turn, and shows the answer.
function window(port) {
    const request = http.request({ port, host: '127.0.0.1', headers: { Connection: 'Upgrade', Upgrade: 'websocket' } });
    request.on('upgrade', (response, socket) => {
        const wanted = ['settings', 'list', 'search', 'status', 'watch', 'save', 'replace', 'terminal', 'hook', 'open-settings', 'end'];
        let seen = '';
        socket.setEncoding('utf8');
        socket.on('data', (text) => {
            seen += text;
            for (let end; (end = seen.indexOf('\0')) >= 0; seen = seen.slice(end + 1)) {
                console.log(seen.slice(0, end));
                if (wanted.length) socket.write(wanted.shift() + '\n');
            }
        });
    });
    request.end();
}
