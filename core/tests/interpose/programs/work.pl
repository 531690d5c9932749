# SPDX-License-Identifier: MIT
# Hashes of strings, regular expressions, growing strings, fork; prints checksums.
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);

my $state = 12345;
sub rnd { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0] }

sub churn {
    $state = shift;
    my (%words, @lists);
    for my $i (1 .. 120_000) {
        my $key = 'k' . rnd(20_000);
        $words{$key} .= chr(97 + rnd(26)) x (1 + rnd(20));
        delete $words{'k' . rnd(20_000)} if $i % 3 == 0;
        push @{$lists[rnd(500)]}, $i if $i % 5 == 0;
    }
    my $all = join ',', map { "$_=$words{$_}" } sort keys %words;
    (my $other = $all) =~ s/([aeiou]+)/<$1>/g;
    return md5_hex($all) . ' ' . md5_hex($other) . ' ' . scalar(map { @{$_ || []} } @lists);
}

print churn($_), "\n" for 1 .. 3;
pipe(my $reader, my $writer) or die;
my $child = fork() // die;
if (!$child) { close $reader; print $writer churn(7), "\n"; close $writer; exit 0 }
close $writer;
print <$reader>;
waitpid $child, 0;
print "child: $?\n";
my $long = '';
$long .= $_ x 50 for 1 .. 50_000;
print length($long), ' ', md5_hex($long), "\n";
