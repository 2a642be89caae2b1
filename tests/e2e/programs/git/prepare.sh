# What is there before the run: the user's settings, a repository to clone, and one to work in.
set -eu
printf '[user]\n\tname = A Tester\n\temail = tester@example.org\n[init]\n\tdefaultBranch = main\n' >"$HOME/.gitconfig"
export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'
for name in origin present; do
    git init -q $name
    (
        cd $name
        for number in 1 2 3; do
            echo "line $number" >>file
            mkdir -p dir$number
            echo $number >dir$number/x
            git add .
            git commit -q -m "number $number"
        done
    )
done
