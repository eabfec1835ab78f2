package watch

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs more tests beside each other than there are processors: those
// over the real notifier wait, they do not compute.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}
