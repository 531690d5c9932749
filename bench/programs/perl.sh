# SPDX-License-Identifier: MIT
# Perl: words are counted, split, joined, sorted, and nested in hashes and arrays; every scalar's
# string, every array and every table of a hash is a block of malloc.
# needs: perl
# serves: perl
. "$PROGRAMS/lib.sh"

prepare() {
    cat >words.pl <<'END_OF_PERL'
use strict; use warnings;
my ($seed, %count, %index, @lines) = (12345);
sub next_random { $seed = ($seed * 1103515245 + 12345) & 0x7fffffff; return $seed >> 8 }
for my $n (1 .. 30000) {
    push @lines, join ' ', map { 'word' . (next_random() % 9000) } 1 .. 4 + $n % 9;
}
for my $number (0 .. $#lines) {
    my $line = $lines[$number];
    $count{$_}++ for split / /, $line;
    (my $changed = $line) =~ s/(\d+)/<$1>/g;
    push @{$index{lc substr $changed, 0, 7}{length $changed}}, $number;
}
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my $text = join "\n", map { sprintf '%-12s %6d', $_, $count{$_} } @sorted;
my $sum = 0;
$sum += $count{$_} for keys %count;
my $nested = 0;
for my $by_length (values %index) { $nested += @$_ for values %$by_length }
my $records = 0;
for my $round (1 .. 3) {
    my %records = map { $_ => {name => "record $_", tags => [$_, $_ + 1, "t$round"]} } 1 .. 15000;
    $records += scalar @{$records{$_}{tags}} for keys %records;
}
my $wanted = 0;
$wanted += 4 + $_ % 9 for 1 .. 30000;
die "wrong counts: $sum, $nested, $records\n"
    if $sum != $wanted or $nested != 30000 or $records != 135000 or length $text < 9000 * 19;
END_OF_PERL
}

run() {
    under perl words.pl
}

"$1"
