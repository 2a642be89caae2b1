# A repository with a branch that conflicts, one that does not, and corrections to be squashed.
set -eu
printf '[user]\n\tname = A Tester\n\temail = tester@example.org\n[init]\n\tdefaultBranch = main\n' >"$HOME/.gitconfig"
export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'
git init -q repository
cd repository
change() { echo "$2" >>"$1"; git add "$1"; git commit -q -m "$3"; }
change file first 'the first'
git checkout -q -b topic
for number in 1 2 3 4 5; do change "topic$number" "$number" "topic $number"; done
change topic2 corrected 'fixup! topic 2'
git checkout -q -b conflicting main
change file theirs 'their line'
change other theirs 'another file'
git checkout -q main
change file ours 'our line'
change main main 'on main'
