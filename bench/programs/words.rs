// SPDX-License-Identifier: MIT
//! Counts words in hash maps and trees, and hands the lines from one thread to another.
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

const LINES: u64 = 120_000;

fn line(number: u64) -> String {
    let words = (0..4 + number % 9).map(|i| format!("w{}", (number * 31 + i * 7919) % 20_011));
    words.collect::<Vec<_>>().join(" ")
}

fn main() {
    let (sender, receiver) = mpsc::sync_channel::<Vec<String>>(64);
    let producer = thread::spawn(move || {
        for start in (0..LINES).step_by(100) {
            let batch = (start..start + 100).map(line).collect();
            sender.send(batch).expect("the counter is there");
        }
    });
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut places: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut number = 0;
    for batch in receiver {
        for text in batch {
            number += 1;
            for word in text.split(' ') {
                *counts.entry(word.to_owned()).or_default() += 1;
                if number % 4 == 0 {
                    places.entry(word.to_uppercase()).or_default().push(number);
                }
            }
        }
    }
    producer.join().expect("the producer ended well");
    assert!(number == LINES && counts.len() > 20_000 && places.len() > 10_000);
}
