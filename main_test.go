package ma2h_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails a run that leaves goroutines behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if fuzz := flag.Lookup("test.fuzz"); code == 0 && (fuzz == nil || fuzz.Value.String() == "") {
		if left := leaked(5 * time.Second); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines were left behind:\n\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked gives goroutines that are about to end the time to do so, and returns
// the stacks of those that stay.
func leaked(patience time.Duration) string {
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		left := others()
		if left == "" || time.Now().After(deadline) {
			return left
		}
	}
}

// others are the stacks of all goroutines but the caller's and the runtime's.
func others() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for _, stack := range strings.Split(string(buf), "\n\n")[1:] {
		ours := true
		for _, theirs := range []string{"testing.(*M).", "testing.runTests", "testing.tRunner(", "os/signal.", "runtime/pprof."} {
			ours = ours && !strings.Contains(stack, theirs)
		}
		if ours {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

func TestAGoroutineThatStaysIsSeen(t *testing.T) {
	stop, running := make(chan struct{}), make(chan struct{})
	go waitForTheEnd(running, stop)
	<-running
	if !strings.Contains(others(), "waitForTheEnd") {
		t.Error("a goroutine that waits is not seen")
	}
	close(stop)
}

func waitForTheEnd(running, stop chan struct{}) {
	close(running)
	<-stop
}
