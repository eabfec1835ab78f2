package baseline

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestMain plays a role when it is asked for one, and otherwise runs the tests.
// What this file imports is in every process of a baseline.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role := roles(os.Args[1]); role != nil {
			if err := role(os.Args[2:]); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

func TestIntake_CutsLinesOfAnyLength(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	text := "a\n\n" + long + "\nbcd\n" + long + long + "\ntorn"
	for name, src := range map[string]io.Reader{
		"at once":        strings.NewReader(text),
		"byte by byte":   iotest.OneByteReader(strings.NewReader(text)),
		"half at a time": iotest.HalfReader(strings.NewReader(text)),
	} {
		in := NewIntake(src, 16)
		var got []string
		for line, err := in.Next(); err == nil; line, err = in.Next() {
			got = append(got, string(line))
		}
		want := []string{"a\n", "\n", long + "\n", "bcd\n", long + long + "\n"}
		if !slices.Equal(want, got) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestIDOf_FindsWhatTheFloorReplaces(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":17,"method":"ping","params":{}}`:             `{"jsonrpc":"2.0","id":5,"method":"ping","params":{}}`,
		`{"jsonrpc":"2.0","id":"h17","result":{}}`:                          `{"jsonrpc":"2.0","id":5,"result":{}}`,
		`{"jsonrpc":"2.0","id":17}`:                                         `{"jsonrpc":"2.0","id":5}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`:     "",
		`{"jsonrpc":"2.0","method":"` + strings.Repeat("m", 99) + `","id":`: "",
	} {
		got := ""
		if from, to, ok := IDOf([]byte(line)); ok {
			got = string(withID(nil, []byte(line), from, to, []byte("5")))
		}
		if got != want {
			t.Errorf("%s becomes %q, not %q", line, got, want)
		}
	}
}
