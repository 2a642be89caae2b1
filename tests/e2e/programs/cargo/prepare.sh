# The place that cargo keeps its packages in, empty.
set -eu
mkdir "$HOME/.cargo"
