<?php
// Reports the assertions that a program evaluates. PHP runs this before the program.
function quarry_report_tell($kind, $line) {
    static $left = @LIMIT@;
    static $stream = null;
    $stream ??= @fopen('php://fd/' . getenv('QUARRY_REPORT'), 'w');
    $left -= 1;
    if ($left >= -1 && $stream) {
        fwrite($stream, '@NONCE@ ' . ($left < 0 ? 'm' : $kind) . " $line\n");
    }
}
function quarry_report_t($line, $value, $end) {
    // A function that is not called, or what a generator returns, is never false.
    if (!($value instanceof Closure || $value instanceof Generator)) {
        quarry_report_tell($value ? 'h' : 'f', $line);
    }
    return $value;
}
function quarry_report_n($line, $value, $end) {
    quarry_report_tell($value ? 'f' : 'h', $line);
    return $value;
}
const quarry_report_z = 0;
quarry_report_tell('s', 0);
