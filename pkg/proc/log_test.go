package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// openLog opens a log that is closed at the end of the test, if not before.
func openLog(t *testing.T, path string, size int64, keep int) *Log {
	t.Helper()
	l, err := OpenLog(path, size, keep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// files reads the files of a log by name.
func files(t *testing.T, path string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	names, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(name)] = string(text)
	}
	return texts
}

func TestLog_RotatesAtItsSizeBetweenLines(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int64
		keep   int
		writes []string
		want   map[string]string
	}{
		{
			"one file while it fits", 8, 2,
			[]string{"one\n", "two\n"},
			map[string]string{"log": "one\ntwo\n"},
		},
		{
			"a second one when it does not", 8, 2,
			[]string{"one\n", "two\n", "three\n"},
			map[string]string{"log": "three\n", "log.1": "one\ntwo\n"},
		},
		{
			"the oldest goes", 4, 2,
			[]string{"1.\n", "2.\n", "3.\n", "4.\n"},
			map[string]string{"log": "4.\n", "log.1": "3.\n", "log.2": "2.\n"},
		},
		{
			"none is kept", 4, 0,
			[]string{"1.\n", "2.\n"},
			map[string]string{"log": "2.\n"},
		},
		{
			"many lines at once are divided", 8, 2,
			[]string{"one\ntwo\nthree\nfour\n"},
			map[string]string{"log": "four\n", "log.1": "three\n", "log.2": "one\ntwo\n"},
		},
		{
			"a line longer than a file has one of its own", 4, 2,
			[]string{"1.\nvery long\n2.\n"},
			map[string]string{"log": "2.\n", "log.1": "very long\n", "log.2": "1.\n"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "logs", "log")
			l := openLog(t, path, tc.size, tc.keep)
			for _, w := range tc.writes {
				fmt.Fprint(l, w)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, files(t, path)); diff != "" {
				t.Error(diff)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

func TestLog_GoesOnWhereItsPredecessorEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, text := range []string{"one\n", "two\n", "three\n"} {
		l := openLog(t, path, 8, 1)
		fmt.Fprint(l, text)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if n, err := fmt.Fprint(l, "late\n"); n != 5 || err != nil {
			t.Errorf("a write after Close: %d, %v", n, err)
		}
	}
	if diff := cmp.Diff(map[string]string{"log": "three\n", "log.1": "one\ntwo\n"}, files(t, path)); diff != "" {
		t.Error(diff)
	}
}

func TestLog_WaitsForNoDisk(t *testing.T) {
	// A pipe that nobody reads is a disk that hangs.
	path := filepath.Join(t.TempDir(), "log")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	disk, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	l := openLog(t, path, 1<<30, 1)
	text := []byte(strings.Repeat("0123456789abcde\n", 1<<10))
	within(t, 5*time.Second, func() {
		for range logQueue / len(text) * 2 {
			if n, err := l.Write(text); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
		}
	})
	// It recovers, and says so.
	disk.SetReadDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 64<<10)
	var end []byte
	for !strings.Contains(string(end), "bytes lost: the disk was too slow\n") {
		n, err := disk.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		end = append(end[max(len(end)-100, 0):], buf[:n]...)
	}
}

func TestLog_SurvivesThatItCannotMoveItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, path, 8, 1)
	fmt.Fprint(l, "one\ntwo\nthree\n")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if diff := cmp.Diff("three\n", string(text)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestOpenLog_SaysWhyNot(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenLog(dir, 8, 1); err == nil || !strings.HasPrefix(err.Error(), "open log: ") {
		t.Error(err)
	}
}

func TestTail_ReadsTheLastLinesAcrossRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for name, text := range map[string]string{"": "5\n6\n", ".1": "3\n\n4\n", ".2": "1\n2\n"} {
		if err := os.WriteFile(path+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		n    int
		want []string
	}{
		{-1, nil},
		{0, nil},
		{1, []string{"6"}},
		{2, []string{"5", "6"}},
		{4, []string{"", "4", "5", "6"}},
		{5, []string{"3", "", "4", "5", "6"}},
		{100, []string{"1", "2", "3", "", "4", "5", "6"}},
	} {
		got, err := Tail(path, tc.n)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("Tail(%d): %s", tc.n, diff)
		}
	}
	// In the moment of rotation, the current file is missing.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	got, err := Tail(path, 1)
	if diff := cmp.Diff([]string{"4"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestTail_IsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	line := strings.Repeat("x", 999) + "\n"
	for _, name := range []string{path, path + ".1", path + ".2"} {
		if err := os.WriteFile(name, []byte(strings.Repeat(line, 600)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Tail(path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if want := tailLimit / len(line); len(got) != want {
		t.Errorf("%d lines, want %d", len(got), want)
	}
	for _, l := range got {
		if len(l) != 999 {
			t.Errorf("a line of %d", len(l))
		}
	}
}

func TestTail_OfNoLogIsNotExist(t *testing.T) {
	if _, err := Tail(filepath.Join(t.TempDir(), "log"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestLog_KeepsTheEndOfWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		path := filepath.Join(dir, fmt.Sprint(run), "log")
		size := rapid.Int64Range(1, 40).Draw(rt, "size")
		keep := rapid.IntRange(0, 3).Draw(rt, "keep")
		l := openLog(t, path, size, keep)
		var all []string
		for i := range rapid.IntRange(0, 30).Draw(rt, "lines") {
			text := fmt.Sprint(i, strings.Repeat("y", rapid.IntRange(0, 20).Draw(rt, "length")))
			all = append(all, text)
			fmt.Fprintln(l, text)
		}
		if err := l.Close(); err != nil {
			rt.Fatal(err)
		}
		texts := files(t, path)
		if len(texts) > keep+1 {
			rt.Fatalf("%d files, %d kept", len(texts), keep)
		}
		for name, text := range texts {
			if int64(len(text)) > size && strings.Count(text, "\n") > 1 {
				rt.Fatalf("%s has %d bytes: %q", name, len(text), text)
			}
		}
		got, err := Tail(path, 1000)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(all[len(all)-len(got):], got); len(got) > 0 && diff != "" {
			rt.Fatal(diff)
		}
		if len(all) > 0 && len(got) == 0 {
			rt.Fatal("nothing is left")
		}
	})
}
