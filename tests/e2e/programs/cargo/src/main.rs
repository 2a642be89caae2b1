include!(concat!(env!("OUT_DIR"), "/word.rs"));

fn count(words: impl Iterator) -> usize {
    words.count()
}

fn main() {
    println!("{} {}", WORD, count(std::env::args().skip(1)));
}

#[test]
fn counts() {
    assert_eq!(count("a b".split(' ')), 2);
}
