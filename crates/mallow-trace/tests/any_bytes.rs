// SPDX-License-Identifier: MIT
//! The reader takes any bytes without a panic, and any records come back as they were.
#![allow(clippy::unwrap_used)]

mod repair;

use mallow_trace::*;
use proptest::prelude::*;

fn sample() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for i in 0..2000u64 {
        let thread = (i % 3) as u32 + 1;
        let op = Op::ALL[i as usize % Op::ALL.len()];
        let call = Call { op, size: i, address: i * 16, stack: (i % 5) as u32, ..Call::default() };
        writer.write(&Record { time: i, thread, event: Event::Call(call) }).unwrap();
        if i % 100 == 0 {
            let frames = vec![Frame { module: 1, address: i }; 20];
            let event = Event::Stack(Stack { id: i as u32 + 1, distance: i, frames });
            writer.write(&Record { time: 0, thread: 0, event }).unwrap();
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap()
}

fn read_all(bytes: &[u8]) {
    let Ok(reader) = Reader::new(bytes) else { return };
    let (mut errors, mut records) = (0, 0);
    for record in reader.merged() {
        errors += u32::from(record.is_err());
        records += 1;
    }
    assert!(errors < 100_000);
    assert!(records <= (16 << 20) + 64 * bytes.len(), "each is a byte or more");
}

fn any_call() -> impl Strategy<Value = Call> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    (0..33usize, any::<bool>(), numbers, any::<u32>()).prop_map(|(op, failed, numbers, stack)| {
        let op = Op::ALL[op];
        let (size, alignment, address, old, took) = numbers;
        let (old, took) = if op.is_realloc() { (old, took) } else { (0, 0) };
        let sized = !op.is_free() || op.name().contains("sized");
        Call {
            op,
            failed,
            size: if sized { size } else { 0 },
            alignment,
            address,
            old,
            took,
            stack,
        }
    })
}

/// As allocators give out addresses and programs ask for sizes.
fn usual_call() -> impl Strategy<Value = Call> {
    let ops =
        prop::sample::select(vec![Op::Malloc, Op::Free, Op::New, Op::DeleteSized, Op::Realloc]);
    let number = (any::<u32>(), 0..32u32).prop_map(|(number, bits)| u64::from(number) >> bits);
    let place = (any::<u32>(), 0..30u32, 0..4u32, prop::sample::select(vec![0, 0x7f << 40]));
    (ops, number, place).prop_map(|(op, size, (place, bits, shift, base))| Call {
        op,
        size: if op == Op::Free { 0 } else { size },
        address: (base + (u64::from(place) >> bits)) << shift,
        ..Call::default()
    })
}

proptest! {
    #[test]
    fn any_file(tail in proptest::collection::vec(any::<u8>(), 0..2000)) {
        read_all(&tail);
        for version in [1, VERSION as u8] {
            let mut bytes = [b"MALLOWTR".as_slice(), &[version, 0, 0, 0]].concat();
            bytes.extend(&tail);
            read_all(&bytes);
        }
    }

    #[test]
    fn any_damage(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
                  cut in any::<prop::sample::Index>(), repaired: bool, cut_off: bool) {
        let mut bytes = sample();
        for (at, value) in changes {
            let at = 20 + at.index(bytes.len() - 20);
            bytes[at] = value;
        }
        if repaired {
            bytes = repair::repaired(&bytes);
        }
        if cut_off {
            bytes.truncate(cut.index(bytes.len()));
        }
        read_all(&bytes);
    }

    #[test]
    fn any_calls(calls in proptest::collection::vec((any::<u32>(), 1..4u32, any_call()), 0..300)) {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        let mut time = 0;
        let mut records = Vec::new();
        for (step, thread, call) in calls {
            time += u64::from(step);
            let record = Record { time, thread, event: Event::Call(call) };
            writer.write(&record).unwrap();
            records.push(record);
        }
        let bytes = writer.finish().unwrap();
        let got: Vec<Record> =
            Reader::new(bytes.as_slice()).unwrap().merged().collect::<Result<_>>().unwrap();
        records.sort_by_key(|record| (record.time, record.thread));
        prop_assert_eq!(got, records);
    }

    #[test]
    fn usual_calls(calls in proptest::collection::vec((any::<u32>(), 0..32u32, usual_call()), 0..300)) {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        let mut time = 0;
        let timed = calls.into_iter().map(|(step, bits, call)| {
            time += u64::from(step >> bits);
            (time, call)
        });
        let timed: Vec<(u64, Call)> = timed.collect();
        writer.write_calls(7, timed.iter().copied()).unwrap();
        let bytes = writer.finish().unwrap();
        let got: Vec<Record> =
            Reader::new(bytes.as_slice()).unwrap().merged().collect::<Result<_>>().unwrap();
        let record = |(time, call)| Record { time, thread: 7, event: Event::Call(call) };
        let expected: Vec<Record> = timed.into_iter().map(record).collect();
        prop_assert_eq!(got, expected);
    }
}
