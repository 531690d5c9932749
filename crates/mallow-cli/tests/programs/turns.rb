# SPDX-License-Identifier: MIT
#
# Requests that threads serve in turns: each needs much memory for a moment, and leaves a little. Says so, and
# rests; with an argument it ends.
THREADS = 12
PARTS = 4_000
kept = []
turns = Array.new(THREADS) { Queue.new }
done = Queue.new
THREADS.times do |i|
  Thread.new do
    while turns[i].pop
      parts = Array.new(PARTS) { |n| "x" * (1_000 + n) }
      kept << Array.new(20) { |n| "y" * (500 + 100 * n) }
      parts.clear
      done << i
    end
  end
end
3.times do
  turns.each do |turn|
    turn << true
    done.pop
    GC.start
  end
end
puts "{}"
$stdout.flush
sleep 1000 if ARGV.empty?
