// SPDX-License-Identifier: MIT
//! What is written is read again, in the right order; and of a damaged trace, what is whole.
#![allow(clippy::unwrap_used)]

use mallow_trace::*;

fn call(time: u64, thread: u32, call: Call) -> Record {
    Record { time, thread, event: Event::Call(call) }
}

fn malloc(time: u64, thread: u32, address: u64, size: u64) -> Record {
    call(time, thread, Call { op: Op::Malloc, size, address, ..Call::default() })
}

fn one_of_each() -> Vec<Record> {
    let at = |thread, event| Record { time: 7, thread, event };
    let process = Process {
        id: 1,
        pid: 4711,
        parent: 0,
        start: Start::Exec,
        executable: "/bin/x".into(),
        command: vec!["x".into(), String::new(), "ä".into()],
        allocator: "/lib/libc.so.6".into(),
    };
    let frames = vec![Frame { module: 1, address: 0x1234 }, Frame { module: 2, address: u64::MAX }];
    let mut records = vec![
        at(0, Event::Process(Box::new(process))),
        at(3, Event::Thread(Thread { process: 1, tid: 4712, name: "worker".into() })),
        at(
            0,
            Event::Module(Box::new(Module {
                id: 1,
                kind: ModuleKind::Vdso,
                path: "/lib/a b.so".into(),
                build_id: vec![1, 2, 255],
                process: 1,
            })),
        ),
        at(
            0,
            Event::Mapping(Mapping {
                process: 1,
                module: 1,
                start: 4096,
                end: 8192,
                bias: 5u64.wrapping_neg(),
            }),
        ),
        at(0, Event::Stack(Stack { id: 1, distance: 1 << 20, frames })),
        at(
            0,
            Event::Symbol(Box::new(Symbol { module: 2, start: 1, size: 2, name: "py::f".into() })),
        ),
        at(
            0,
            Event::Memory(Box::new(Memory {
                process: 1,
                rss: 1,
                anonymous: 2,
                peak_rss: 3,
                ..Memory::default()
            })),
        ),
        at(
            0,
            Event::Regions(Regions {
                process: 1,
                no_huge_pages: true,
                regions: vec![Region { start: 1 << 46, length: 8192, resident: 4096 }],
            }),
        ),
        at(0, Event::ProcessEnd(ProcessEnd { process: 1, ending: Ending::Signal(-9) })),
        at(3, Event::ThreadName("other".into())),
        at(3, Event::Marker("here".into())),
        at(3, Event::Dropped(12)),
    ];
    for op in Op::ALL {
        let realloc = op.is_realloc();
        records.push(call(
            8,
            3,
            Call {
                op,
                failed: op == Op::Calloc,
                size: if op == Op::Free { 0 } else { u64::from(op as u8) },
                alignment: 64,
                address: 0x7fff_0000_1235,
                old: if realloc { 77 } else { 0 },
                took: if realloc { 3 } else { 0 },
                stack: u32::MAX,
            },
        ));
    }
    // Frees without a size carry none.
    for record in &mut records {
        if let Event::Call(call) = &mut record.event
            && call.op.is_free()
            && !call.op.name().contains("sized")
        {
            call.size = 0;
        }
    }
    records.push(at(3, Event::ThreadEnd));
    records.last_mut().unwrap().time = 9;
    records
}

fn write(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap()
}

/// What was read, and the errors.
fn read(bytes: &[u8]) -> (Vec<Record>, Vec<Error>) {
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    for item in Reader::new(bytes).unwrap().merged() {
        match item {
            Ok(record) => records.push(record),
            Err(error) => errors.push(error),
        }
    }
    (records, errors)
}

#[test]
fn every_kind_of_record_comes_back() {
    let records = one_of_each();
    let (mut got, errors) = read(&write(&records));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(got.len(), records.len());
    let mut expected = records;
    // Within a time, the collector's records come before those of threads.
    expected.sort_by_key(|r| (!r.event.is_definition(), r.time, r.thread));
    got.sort_by_key(|r| (!r.event.is_definition(), r.time, r.thread));
    assert_eq!(got, expected);
}

#[test]
fn header_and_totals_come_back() {
    let header = Header {
        command: vec!["a".into(), "b c".into()],
        stacks: Stacks::Full,
        stack_distance: 4096,
        allocator_path: Some("/lib/x.so".into()),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for record in one_of_each() {
        writer.write(&record).unwrap();
    }
    let written = *writer.totals();
    let bytes = writer.finish().unwrap();
    let mut merged = Reader::new(bytes.as_slice()).unwrap().merged();
    assert_eq!(*merged.reader().header(), Header { version: VERSION, ..header });
    assert!(merged.by_ref().all(|record| record.is_ok()));
    let totals = *merged.reader().totals().unwrap();
    assert_eq!((totals.calls, totals.dropped, totals.stacks), (33, 12, 1));
    assert_eq!((totals.calls, totals.end), (written.calls, 9));
    assert_eq!(merged.reader().position(), bytes.len() as u64);
}

/// Many threads whose records reach the writer in batches, with promises that hold.
fn busy_trace(threads: u32, calls: u32) -> (Vec<u8>, Vec<Record>) {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let mut all = Vec::new();
    let batch = 1000u64;
    for round in 0..u64::from(calls) / batch {
        for thread in 1..=threads {
            for i in 0..batch {
                let time = (round * batch + i) * 1000 + u64::from(thread);
                let record = malloc(time, thread, 0x7f00_0000_0000 + time * 16, i % 300);
                writer.write(&record).unwrap();
                all.push(record);
            }
        }
        writer.promise((round + 1) * batch * 1000).unwrap();
    }
    all.sort_by_key(|record| (record.time, record.thread));
    (writer.finish().unwrap(), all)
}

#[test]
fn threads_are_merged_in_time_order() {
    let (bytes, expected) = busy_trace(7, 100_000);
    let (got, errors) = read(&bytes);
    assert!(errors.is_empty(), "{errors:?}");
    assert!(got == expected);
}

#[test]
fn late_record_is_moved_up_to_the_promise() {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    writer.write(&malloc(10, 1, 64, 1)).unwrap();
    writer.promise(100).unwrap();
    writer.write(&malloc(50, 1, 128, 1)).unwrap();
    writer.flush().unwrap();
    writer.write(&malloc(60, 2, 128, 1)).unwrap();
    let (got, errors) = read(&writer.finish().unwrap());
    assert!(errors.is_empty());
    assert_eq!(
        got.iter().map(|r| (r.time, r.thread)).collect::<Vec<_>>(),
        [(10, 1), (100, 1), (100, 2)]
    );
}

#[test]
fn cut_off_trace_is_read_to_the_last_whole_block() {
    let (bytes, expected) = busy_trace(3, 50_000);
    let whole = read(&bytes).0.len();
    assert_eq!(whole, expected.len());
    let mut last = 0;
    for length in (1000..bytes.len()).step_by(bytes.len() / 40) {
        let (got, errors) = read(&bytes[..length]);
        assert!(matches!(errors.as_slice(), [Error::CutOff { .. }]), "{length}: {errors:?}");
        assert!(errors[0].to_string().contains("cut off"));
        assert!(got.len() >= last && got.len() <= whole);
        assert!(got.is_sorted_by_key(|record| record.time));
        last = got.len();
    }
    assert!(last > whole / 2);
}

#[test]
fn damaged_block_is_skipped_and_said() {
    let (bytes, expected) = busy_trace(2, 50_000);
    let mut damaged = bytes.clone();
    let at = bytes.len() / 2;
    damaged[at] ^= 0x10;
    let (got, errors) = read(&damaged);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].to_string().contains("damaged at byte"), "{}", errors[0]);
    assert!(got.len() < expected.len());
}

/// Of a program of seven calls, recorded when there was no other version.
#[test]
fn version_1_is_read() {
    let bytes = include_bytes!("version-1.trace");
    assert_eq!(bytes[8], 1);
    let (records, errors) = read(bytes);
    assert!(errors.is_empty(), "{errors:?}");
    let calls = |wanted: fn(&Call) -> bool| {
        let is_it = |record: &&Record| matches!(&record.event, Event::Call(call) if wanted(call));
        records.iter().filter(is_it).count()
    };
    assert_eq!((calls(|call| !call.op.is_free()), calls(|call| call.op.is_free())), (4, 3));
}

#[test]
fn foreign_and_newer_files_are_refused() {
    let refuse = |bytes: &[u8]| Reader::new(bytes).err().unwrap().to_string();
    assert!(refuse(b"").contains("not a mallow trace"));
    assert!(refuse(b"\x7fELF and much more that is no trace").contains("not a mallow trace"));
    let mut newer = write(&[]);
    newer[8] = 99;
    assert!(refuse(&newer).contains("format version 99"));
    assert!(refuse(&newer[..15]).contains("cut off"));
    let mut bad = write(&[]);
    bad[25] ^= 1;
    assert!(refuse(&bad).contains("header does not match its checksum"));
}

#[test]
fn no_more_is_held_than_lies_between_watermarks() {
    // The writer makes watermarks by itself, by size and by time.
    let (bytes, _) = busy_trace(4, 400_000);
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let (mut watermarks, mut calls, mut most) = (0, 0, 0);
    while let Some(block) = reader.next_block() {
        let block = block.unwrap();
        match block.watermark() {
            Some(_) => (watermarks, calls) = (watermarks + 1, 0),
            None => calls += block.info.count,
        }
        most = most.max(calls);
    }
    assert!(watermarks >= 2, "{watermarks}");
    assert!(most < 3_000_000, "{most}");
}

/// What blocks hold, packed as well as can be: records of half a MiB that say nothing.
#[test]
fn a_small_file_cannot_claim_to_hold_much() {
    for of_thread in [false, true] {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        for number in 1..100 {
            let frames = vec![Frame { module: 1, address: 1 }; 250_000];
            let event = match of_thread {
                false => Event::Stack(Stack { id: number, distance: 0, frames }),
                true => Event::Marker("x".repeat(500_000)),
            };
            // What comes slowly is packed.
            let time = u64::from(number) * 1_000_000_000;
            writer.write(&malloc(time - 500_000_000, number, 64, 1)).unwrap();
            writer.write(&Record { time, thread: number, event }).unwrap();
        }
        let bytes = writer.finish().unwrap();
        assert!(bytes.len() < 1 << 20, "{}", bytes.len());
        let reader = Reader::new(bytes.as_slice()).unwrap();
        let (mut taken, mut error) = (0, None);
        for record in reader.merged() {
            match record {
                Ok(Record { event: Event::Call(_), .. }) => {}
                Ok(_) => taken += 500_000,
                Err(other) => error = Some(other),
            }
        }
        assert!(taken <= (16 << 20) + 64 * bytes.len(), "{taken} of {}", bytes.len());
        let error = error.unwrap().to_string();
        assert!(error.contains("hold far more than they can"), "{error}");
    }
}

#[test]
fn definitions_are_given_out_block_by_block() {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for id in 1..20_000 {
        let frames = (0..10).map(|n| Frame { module: 1, address: n * 1_234_567 + u64::from(id) });
        let stack = Stack { id, distance: 0, frames: frames.collect() };
        writer.write(&Record { time: 0, thread: 0, event: Event::Stack(stack) }).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let mut merged = Reader::new(bytes.as_slice()).unwrap().merged();
    assert!(merged.next().unwrap().is_ok());
    assert!(merged.reader().position() < bytes.len() as u64 / 3, "the others are not read yet");
    assert_eq!(merged.filter(Result::is_ok).count(), 19_998);
}

#[test]
fn record_that_is_too_large_is_refused() {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let record = Record { time: 1, thread: 1, event: Event::Marker("x".repeat(1 << 20)) };
    assert!(matches!(writer.write(&record), Err(Error::TooLarge { .. })));
    writer.write(&malloc(2, 1, 64, 1)).unwrap();
    assert_eq!(read(&writer.finish().unwrap()).0.len(), 1);
}
