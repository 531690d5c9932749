// SPDX-License-Identifier: MIT
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.SynchronousQueue;
import java.util.zip.Deflater;

/**
 * Requests that threads serve in turns: each compresses much at once, and leaves a little. Says so, and
 * rests; with an argument it ends.
 */
public class Turns {
    static final int THREADS = 12, AT_ONCE = 60, ROUNDS = 3;
    static final List<Deflater> kept = new ArrayList<>();

    static void serve() {
        List<Deflater> busy = new ArrayList<>();
        byte[] in = new byte[4096], out = new byte[8192];
        for (int i = 0; i < AT_ONCE; i++) {
            Deflater deflater = new Deflater();
            deflater.setInput(in);
            deflater.finish();
            deflater.deflate(out);
            busy.add(deflater);
        }
        kept.add(new Deflater());
        for (Deflater deflater : busy) {
            deflater.end();
        }
    }

    public static void main(String[] words) throws Exception {
        List<SynchronousQueue<Boolean>> turns = new ArrayList<>();
        SynchronousQueue<Boolean> done = new SynchronousQueue<>();
        for (int i = 0; i < THREADS; i++) {
            SynchronousQueue<Boolean> turn = new SynchronousQueue<>();
            turns.add(turn);
            Thread thread = new Thread(() -> {
                try {
                    while (turn.take()) {
                        serve();
                        done.put(true);
                    }
                } catch (InterruptedException e) {
                    return;
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        for (int round = 0; round < ROUNDS; round++) {
            for (SynchronousQueue<Boolean> turn : turns) {
                turn.put(true);
                done.take();
            }
        }
        System.out.println("{}");
        if (words.length == 0) {
            Thread.sleep(1_000_000);
        }
    }
}
