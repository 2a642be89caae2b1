# The daily work: in a repository that was there, and in a clone made in the run.
set -eu
export GIT_AUTHOR_DATE='2002-02-02T00:00:00Z' GIT_COMMITTER_DATE='2002-02-02T00:00:00Z'
cd present
echo more >>file
git status --short
git commit -q -a -m 'more'
git checkout -q -b topic
git mv dir1 moved
git commit -q -m 'a move'
git tag v1
git checkout -q main
git merge -q --no-ff -m 'merged' topic
git status
git log --stat --format='%H %an %s'
cd ..

git clone origin clone 2>&1
cd clone
echo new >added
git add added
git commit -m 'added'
git status
git log --graph --format='%h %d %s'
echo unwanted >>file
git stash -q
git stash pop
git diff
git checkout -q -- file
git push -q origin HEAD:refs/heads/pushed
git fetch -v origin 2>&1
git gc -q
git fsck --strict 2>/dev/null
git -C ../origin log --oneline pushed
git clone -q --bare . ../bare
git worktree add -q ../tree HEAD~1 2>/dev/null
git worktree list | sed 's/ .*//'
git archive --format tar HEAD | tar -t
