// SPDX-License-Identifier: MIT
//! What lies in the ring of a recorded program, message by message, and the code of Python and Ruby that it tells of.
#![no_main]

use mallow_capture::parse::{self, Message};
use mallow_capture::script::{Part, Script};
use mallow_fuzz::word_at;
use mallow_recorder::layout::SCRIPT_WORDS;
use mallow_trace::Event;

fn read(message: &Message, script: &mut Script) {
    match message {
        Message::ScriptCode { key, part, width, first_line, bytes } => {
            let (key, part, width, first_line) = (*key, *part, *width, *first_line);
            script.learn(&Part { key, part, width, first_line, bytes });
        }
        Message::Script { evaluation, frames } => {
            let (begin, behind) = (*evaluation, evaluation.wrapping_add(1));
            script.is_evaluation(behind, begin, || Some((begin, behind)));
            for [key, place, _] in frames.as_chunks::<SCRIPT_WORDS>().0 {
                let mut definitions = Vec::new();
                let frame = script.frame(1, (*key, *place), || 1, &mut definitions);
                for event in definitions {
                    let Event::Symbol(symbol) = event else { continue };
                    assert!((symbol.start..symbol.start + symbol.size).contains(&frame.address));
                }
            }
        }
        _ => {}
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u64> = (0..bytes.len() as u64 / 8).map(|index| word_at(bytes, index)).collect();
    let (mut rest, mut script) = (&words[..], Script::default());
    while !rest.is_empty() {
        let call = parse::call(rest);
        let mut behind = rest;
        if let Some((stamp, plain)) = parse::plain_call(&mut behind) {
            let (any, used) = call.as_ref().expect("it is a call");
            assert_eq!((stamp, plain.size, plain.address), (any.stamp, any.size, any.address));
            assert_eq!((plain.failed, behind.len()), (parse::is_failed(any), rest.len() - used));
        }
        let used = match (call, parse::message(rest)) {
            (Some((_, used)), message) => {
                assert!(message.is_none());
                used
            }
            (None, Some((message, used))) => {
                read(&message, &mut script);
                used
            }
            (None, None) => 1,
        };
        assert!((1..=rest.len()).contains(&used));
        rest = &rest[used..];
    }
});
