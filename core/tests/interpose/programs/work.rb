# SPDX-License-Identifier: MIT
# Threads that build strings and tables while the garbage collector runs; prints checksums.
require 'digest/md5'
require 'digest/sha2' # two threads that load it by its first use are in each other's way, in Ruby 3.1
require 'zlib'

def churn(seed)
  random = Random.new(seed)
  digest = Digest::SHA256.new
  kept = {}
  6_000.times do |i|
    text = random.bytes(random.rand(600)) * (1 + random.rand(8))
    kept[random.rand(400)] = text
    digest << text[0, 16]
    GC.start if (i % 3_000).zero?
  end
  kept.sort.each { |key, text| digest << key.to_s << text }
  digest.hexdigest
end

puts Array.new(8) { |seed| Thread.new { churn(seed) } }.map(&:value)

big = +''
300.times { |i| big << (i.to_s * 20_000) }
puts big.size, Zlib.crc32(big), Digest::MD5.hexdigest(big.gsub('17', 'xyz').reverse)
packed = Zlib::Deflate.deflate(big, 6)
puts Zlib::Inflate.inflate(packed) == big

reader, writer = IO.pipe
child = fork do
  reader.close
  writer.puts churn(99)
end
writer.close
puts reader.read
Process.wait(child)
puts $?.exitstatus
GC.compact if GC.respond_to?(:compact)
puts churn(99)
