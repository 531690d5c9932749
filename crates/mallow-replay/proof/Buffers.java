// SPDX-License-Identifier: MIT
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

/**
 * What a Java server has in malloc: four threads that pack and unpack, with buffers beside the
 * heap of the garbage collector, which other threads allocated.
 */
public class Buffers {
    static final Queue<ByteBuffer> kept = new ConcurrentLinkedQueue<>();

    static byte[] text(Random random) {
        byte[] text = new byte[2000 + random.nextInt(60000)];
        for (int i = 0; i < text.length; i++) text[i] = (byte) (random.nextInt(16) * (i % 7));
        return text;
    }

    static long work(int seed) throws Exception {
        Random random = new Random(seed);
        long sum = 0;
        for (int i = 0; i < 400; i++) {
            byte[] text = text(random);
            Deflater packer = new Deflater(1 + i % 9);
            packer.setInput(text);
            packer.finish();
            ByteBuffer packed = ByteBuffer.allocateDirect(text.length + 1000);
            packer.deflate(packed);
            packer.end();
            kept.add(packed.flip());
            if (i > 120) {
                Inflater unpacker = new Inflater();
                unpacker.setInput(kept.remove());
                sum += unpacker.inflate(new byte[64 << 10]);
                unpacker.end();
            }
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> results = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int seed = i;
            results.add(pool.submit(() -> work(seed)));
        }
        long sum = 0;
        for (Future<Long> result : results) sum += result.get();
        pool.shutdown();
        if (sum == 0) throw new AssertionError();
    }
}
