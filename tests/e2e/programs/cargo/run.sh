# A crate without dependencies, with a build script, built and tested offline.
set -eu
cargo build --offline 2>&1
target/debug/counting a b c
cargo run --offline --quiet -- d
cargo test --offline --quiet
cargo build --offline --release 2>&1
cargo clean --offline --quiet 2>/dev/null || cargo clean --quiet
