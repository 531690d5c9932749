# SPDX-License-Identifier: MIT
# Prints a history for git fast-import, always the same: generate_history.pl COMMITS FILES
use strict;
use warnings;

my ($commits, $files) = @ARGV;
my $state = 4711;
sub rnd { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0] }

my @text = map { [map { "line $_ of $files" } 1 .. 200] } 1 .. $files;
for my $commit (1 .. $commits) {
    my $message = "change $commit\n";
    my $when = 1_600_000_000 + $commit * 60;
    print "commit refs/heads/main\ncommitter c <c\@example.org> $when +0000\n";
    print "data ", length($message), "\n$message";
    for (1 .. 6) {
        my $file = rnd($files);
        $text[$file][rnd(200)] = "changed in $commit: " . rnd(1_000_000);
        my $content = join("\n", @{$text[$file]}) . "\n";
        print "M 100644 inline file$file\ndata ", length($content), "\n$content\n";
    }
}
print "done\n";
