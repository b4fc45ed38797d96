package main

// Reports the assertions that a program evaluates; it is compiled with the program.

import (
	"os"
	"strconv"
	"sync/atomic"
)

const quarry_report_z = 0

var quarry_report_left int64 = @LIMIT@
var quarry_report_stream = quarry_report_open()

// `go run` gives its program no descriptor but the first three, and has the others itself.
func quarry_report_open() *os.File {
	for _, process := range []string{"self", strconv.Itoa(os.Getppid())} {
		place := "/proc/" + process + "/fd/" + os.Getenv("QUARRY_REPORT")
		if found, problem := os.Stat(place); problem == nil && found.Mode()&os.ModeNamedPipe != 0 {
			if stream, problem := os.OpenFile(place, os.O_WRONLY, 0); problem == nil {
				return stream
			}
		}
	}
	return nil
}

func quarry_report_tell(kind string, line int) {
	left := atomic.AddInt64(&quarry_report_left, -1)
	if left < -1 || quarry_report_stream == nil {
		return
	}
	if left < 0 {
		kind = "m"
	}
	quarry_report_stream.WriteString("@NONCE@ " + kind + " " + strconv.Itoa(line) + "\n")
}

func quarry_report_n(line int, value bool, end int) bool {
	if value {
		quarry_report_tell("f", line)
	} else {
		quarry_report_tell("h", line)
	}
	return value
}

func quarry_report_t(line int, value bool, end int) bool {
	quarry_report_n(line, !value, end)
	return value
}

func init() {
	quarry_report_tell("s", 0)
}
