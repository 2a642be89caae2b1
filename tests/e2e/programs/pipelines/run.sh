# $1 pipelines of three, each with its own processes, a file, a here-document and a process substitution now and then.
set -eu
for number in $(seq "$1"); do
    seq "$number" | sort -rn | head -n 1 >>maxima
    [ $((number % 10)) != 0 ] || cat <(echo "$number") <<<"unused" | tr 0-9 a-j | cat -A
done
wc -l maxima
sort -n maxima | uniq -c | wc -l
cat <<TEXT
$(sort -n maxima | tail -1)
TEXT
(exit 3) | true && echo "${PIPESTATUS[@]}"
coproc cat
echo through >&"${COPROC[1]}"
read -r line <&"${COPROC[0]}"
echo "$line"
trap 'echo trapped; exit 7' USR1
kill -USR1 $$
