// SPDX-License-Identifier: MIT
// Threads with zip streams, direct buffers and garbage for the collector; prints checksums.
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import java.util.zip.ZipOutputStream;

public class Work {
    static byte[] zip(Random random, int entries) throws Exception {
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (ZipOutputStream out = new ZipOutputStream(packed)) {
            for (int i = 0; i < entries; i++) {
                ZipEntry entry = new ZipEntry("entry" + i);
                entry.setTime(0);
                out.putNextEntry(entry);
                byte[] data = new byte[random.nextInt(60_000)];
                for (int j = 0; j < data.length; j++) {
                    data[j] = (byte) (j * i >> 3);
                }
                out.write(data);
                out.closeEntry();
            }
        }
        return packed.toByteArray();
    }

    static long work(int seed) throws Exception {
        Random random = new Random(seed);
        CRC32 crc = new CRC32();
        Map<Integer, String> garbage = new HashMap<>();
        for (int round = 0; round < 6; round++) {
            byte[] packed = zip(random, 20);
            try (ZipInputStream in = new ZipInputStream(new ByteArrayInputStream(packed))) {
                while (in.getNextEntry() != null) {
                    crc.update(in.readAllBytes());
                }
            }
            ByteBuffer direct = ByteBuffer.allocateDirect(1 << 16 + random.nextInt(4));
            while (direct.hasRemaining()) {
                direct.put((byte) round);
            }
            direct.flip();
            crc.update(direct);
            for (int i = 0; i < 20_000; i++) {
                garbage.put(random.nextInt(5_000), "value " + i + " of " + round);
            }
        }
        return crc.getValue() + garbage.hashCode();
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(6);
        List<Future<Long>> results = new ArrayList<>();
        for (int seed = 0; seed < 12; seed++) {
            int mine = seed;
            results.add(pool.submit(() -> work(mine)));
        }
        for (Future<Long> result : results) {
            System.out.println(result.get());
        }
        pool.shutdown();
        System.gc();
        for (int i = 0; i < 200; i++) {
            Thread thread = new Thread(() -> { });
            thread.start();
            thread.join();
        }
        System.out.println("done");
    }
}
