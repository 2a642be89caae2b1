# Rebased: straight, interactively with corrections squashed and a command after each, over a conflict, and given up.
set -eu
export GIT_AUTHOR_DATE='2002-02-02T00:00:00Z' GIT_COMMITTER_DATE='2002-02-02T00:00:00Z' GIT_EDITOR=true
cd repository
shown() { git log --format='%H %s' "$1"; git status --short; }
git checkout -q -b straight topic
git rebase main 2>&1 | tr '\r' '\n' | tail -1
shown straight
git checkout -q -b squashed topic
GIT_SEQUENCE_EDITOR='sed -i -e s/^pick/reword/ -e 4s/^reword/drop/' \
    git rebase -i --autosquash --exec 'git show --stat --oneline' main 2>/dev/null
shown squashed
git checkout -q conflicting
git rebase main >/dev/null 2>&1 && exit 9
git status
git diff
printf 'first\nours and theirs\n' >file
git add file
git rebase --continue 2>/dev/null
shown conflicting
git checkout -q -b given-up conflicting~1
git commit -q --amend -m 'otherwise'
git rebase --onto topic~3 main given-up >/dev/null 2>&1 || git rebase --abort
git rebase --apply topic 2>&1 | tail -1 || git rebase --skip 2>&1 | tail -1
git reflog --format='%gs' | sort
git fsck --strict 2>/dev/null
