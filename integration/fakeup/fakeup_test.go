package fakeup_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/integration/fakeup"
)

// TestMain makes this test binary the program when it is called by its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == fakeup.Name {
		os.Exit(fakeup.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// talk runs the program with flags, sends it lines, closes its stdin, and
// returns what it wrote.
func talk(t *testing.T, flags []string, lines ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, flags...)
	cmd.Args[0] = fakeup.Name
	cmd.Stderr = io.Discard
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, strings.Join(lines, "\n"))
	var got []string
	for s := bufio.NewScanner(out); len(got) < len(lines) && s.Scan(); {
		got = append(got, s.Text())
	}
	in.Close()
	cmd.Wait()
	return got
}

func TestMain_AnswersWithWhatItReceivedByteForByte(t *testing.T) {
	t.Parallel()
	params := `{ "name":"raw","arguments":{"n":[9007199254740993,1e400,1.0]} }`
	got := talk(t, nil, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":`+params+`}`)
	want := []string{`{"jsonrpc":"2.0","id":"1","result":{"content":[],"structuredContent":` + params + `}}`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestMain_PagesHaveAnEmptyCursorThatIsNotTheEnd(t *testing.T) {
	t.Parallel()
	list := `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":%s}`
	got := talk(
		t, []string{"-count", "8", "-page", "15"},
		fmt.Sprintf(list, 1, `{}`), fmt.Sprintf(list, 2, `{"cursor":""}`), fmt.Sprintf(list, 3, `{"cursor":"page 2"}`),
	)
	var counts []int
	var cursors []string
	for _, line := range got {
		var m struct {
			Result struct {
				Tools      []json.RawMessage
				NextCursor *string
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		counts = append(counts, len(m.Result.Tools))
		cursors = append(cursors, fmt.Sprintf("%v", m.Result.NextCursor != nil))
	}
	if d := cmp.Diff([]int{15, 15, 0}, counts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"true", "false", "false"}, cursors); d != "" {
		t.Error(d)
	}
}

func TestMain_RecordsWhatHappens(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "record")
	talk(t, []string{"-record", record}, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	entries, err := fakeup.Record(record)
	if err != nil {
		t.Fatal(err)
	}
	var what []string
	for _, e := range entries {
		what = append(what, e.What)
	}
	if d := cmp.Diff([]string{fakeup.Started, fakeup.Received, fakeup.EOF}, what); d != "" {
		t.Error(d)
	}
}
