# A picture of a local page, and what the page's own program made of it.
# Its settings lie beneath the work directory: those of the user's own browser are denied as secrets.
set -eu
export XDG_CONFIG_HOME="$PWD/settings"
browser() {
    chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars \
        --force-device-scale-factor=1 --user-data-dir="$PWD/profile" --window-size=200,150 "$@" "file://$PWD/page.html"
}
browser --screenshot="$PWD/page.png" 2>stderr
browser --dump-dom 2>stderr
rm -rf profile settings stderr  # a run names another place for its settings (CHROME_CONFIG_HOME)
