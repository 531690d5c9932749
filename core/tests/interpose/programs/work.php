<?php
// SPDX-License-Identifier: MIT
// Works with memory of PHP itself and of its extensions, and prints sums that are the same everywhere.
$words = [];
for ($i = 0; $i < 60000; $i++) {
    $words["key$i"] = str_repeat(chr(97 + $i % 26), $i % 120);
}
krsort($words);
echo count($words), " ", md5(serialize($words)), "\n";
echo strlen(json_encode(array_map('strlen', $words))), "\n";
echo preg_match_all('/(\w+)\s+(\d+)/', str_repeat("alpha 12 beta 345 ", 5000)), "\n";

$text = '';
for ($i = 0; $i < 2000; $i++) {
    $text .= str_repeat("line $i ", 40);
}
echo strlen($text), " ", crc32(strrev($text)), "\n";

if (function_exists('iconv')) {
    echo md5(iconv('UTF-8', 'UTF-16LE', str_repeat("gr\u{fc}n ", 3000))), "\n";
}
if (function_exists('ctype_alpha')) {
    echo (int)ctype_alpha(str_repeat('a', 10000)), "\n";
}
if (class_exists('FFI')) {
    echo "ffi\n";
}
if (class_exists('PDO')) {
    try {
        new PDO('none:');
    } catch (PDOException $error) {
        echo $error->getMessage(), "\n";
    }
}
if (class_exists('Phar')) {
    $file = sys_get_temp_dir() . '/mallow-' . getmypid() . '.tar';
    $archive = new PharData($file);
    for ($i = 0; $i < 50; $i++) {
        $archive->addFromString("file$i", str_repeat("$i", 2000));
    }
    unset($archive);
    echo count(iterator_to_array(new PharData($file))), "\n";
    unlink($file);
}
$child = proc_open([PHP_BINARY, '-r', 'echo strlen(str_repeat("x", 1 << 22));'], [1 => ['pipe', 'w']], $pipes);
echo stream_get_contents($pipes[1]), "\n";
proc_close($child);
