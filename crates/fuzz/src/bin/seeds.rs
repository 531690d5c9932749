//! Inputs to begin with: `seeds DIR` writes DIR/TARGET/NAME.

use std::path::Path;

use mallow_process::process::SAVED;
use mallow_trace::{Call, Event, Frame, Header, Op, Record, Stack, Writer};

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: seeds DIR");
        std::process::exit(2);
    };
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = Path::new(&folder).join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), bytes)
    };
    for file in ["maps", "smaps", "smaps_rollup", "status"] {
        let bytes = std::fs::read(format!("/proc/self/{file}"))?;
        let bytes = &bytes[..bytes.len().min(4000)];
        let target = if file == "maps" { "maps" } else { "smaps" };
        write(target, file, bytes)?;
    }
    for (index, file) in SAVED.iter().enumerate() {
        let mut bytes = vec![index as u8];
        bytes.extend(std::fs::read(format!("/proc/self/{file}")).unwrap_or_default());
        bytes.truncate(4000);
        write("process", file, &bytes)?;
    }
    // The smallest dynamic program that is there.
    for path in ["/usr/bin/true", "/bin/busybox"] {
        if let Ok(bytes) = std::fs::read(path) {
            write("elf", &path.replace('/', "-"), &bytes)?;
        }
    }
    write("trace", "calls", &trace().map_err(|error| std::io::Error::other(error.to_string()))?)?;
    // Chunks of a heap: sizes with the flag of the one before, and the top.
    let chunks: Vec<u8> = (1..200u64)
        .flat_map(|n| [0, (n % 40 + 2) * 16 + 1, 0x5500_0000_0010 + n * 16, 0])
        .flat_map(u64::to_le_bytes)
        .collect();
    write("heap", "chunks", &chunks)
}

fn trace() -> mallow_trace::Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), &Header::default())?;
    for i in 0..200u64 {
        let thread = (i % 3) as u32 + 1;
        let op = Op::ALL[i as usize % Op::ALL.len()];
        let call = Call { op, size: i, address: i * 16, stack: (i % 5) as u32, ..Call::default() };
        writer.write(&Record { time: i, thread, event: Event::Call(call) })?;
        if i % 20 == 0 {
            let frames = vec![Frame { module: 1, address: i }; 20];
            let event = Event::Stack(Stack { id: i as u32 + 1, frames, distance: 0 });
            writer.write(&Record { time: 0, thread: 0, event })?;
            writer.flush()?;
        }
    }
    writer.finish()
}
