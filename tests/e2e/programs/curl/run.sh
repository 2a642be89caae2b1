# Fetches, posts and resumes from the server at 127.0.0.1:$1.
set -eu
curl -sS "http://127.0.0.1:$1/text"
curl -sS -o fetched -D headers "http://127.0.0.1:$1/data"
curl -sS --data-binary @fetched "http://127.0.0.1:$1/echo" | cmp - fetched && echo echoed
curl -sS --no-progress-meter --parallel --remote-name-all "http://127.0.0.1:$1/file[1-9]"
curl -sS -4 "http://localhost:$1/text"
curl -sS -f "http://127.0.0.1:$1/missing" 2>&1 || echo "curl says $?"
