
// Reports the assertions that a program evaluates; it stands at the end of the program.
class quarry_report {
    static final int z = 0;
    private static int left = @LIMIT@;
    private static java.io.OutputStream stream;

    static {
        try {
            stream = new java.io.FileOutputStream("/proc/self/fd/" + System.getenv("QUARRY_REPORT"));
        } catch (java.io.IOException problem) {
            stream = null;
        }
    }

    static synchronized void tell(String kind, int line) {
        left -= 1;
        if (left < -1 || stream == null) {
            return;
        }
        try {
            String report = "@NONCE@ " + (left < 0 ? "m" : kind) + " " + line + "\n";
            stream.write(report.getBytes(java.nio.charset.StandardCharsets.US_ASCII));
        } catch (java.io.IOException problem) {
            stream = null;
        }
    }

    static void s() {
        tell("s", 0);
    }

    static boolean t(int line, boolean value, int end) {
        tell(value ? "h" : "f", line);
        return value;
    }

    static boolean n(int line, boolean value, int end) {
        tell(value ? "f" : "h", line);
        return value;
    }
}
