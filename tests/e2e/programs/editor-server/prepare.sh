export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
git init -q && git add src && git -c user.name=Me -c user.email=me@example.org commit -qm begin
