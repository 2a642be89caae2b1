# A server as editors start it for a window elsewhere: it listens on loopback, gives the window's connection to a process of
# its own, watches the tree, saves files, and runs git, a search and a terminal. It reads .vscode, and cannot change it.
set -eu
mkdir -p data
node server.js data
