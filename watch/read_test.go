package watch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReader_TellsWhatStandsAtAPath(t *testing.T) {
	d := disk{t, t.TempDir()}
	d.create("file", "text")
	d.create("empty", "")
	d.mkdir("dir")
	d.symlink("file", "link")
	d.symlink("none", "dangling")
	d.symlink("loop", "loop")
	d.must(syscall.Mkfifo(d.path("fifo"), 0o600))
	r := newReader()
	for name, want := range map[string]reading{
		"file":     content("text"),
		"empty":    content(""),
		"link":     content("text"),
		"dir":      {kind: directory},
		"none":     {},
		"dangling": {},
		"file/x":   {},
		"fifo":     typed(fs.ModeNamedPipe),
		"loop":     failure(syscall.ELOOP),
	} {
		if got := r.read(d.path(name), time.Now(), true); got != want {
			t.Errorf("%s is read as %v, want %v", name, got, want)
		}
	}
	if got := r.read("/dev/zero", time.Now(), true); got.kind != special {
		t.Errorf("a device is read as %v", got)
	}
}

func TestReader_DoesNotReadLargeFilesWhole(t *testing.T) {
	d := disk{t, t.TempDir()}
	r := newReader()
	r.whole = 10
	read := func(text string) reading {
		d.write("file", text)
		d.touch("file")
		return r.read(d.path("file"), time.Now(), true)
	}
	if got := read("0123456789"); got != content("0123456789") {
		t.Errorf("a file of the limit is read as %v", got)
	}
	big := read("0123456789A")
	if big.kind != large {
		t.Errorf("a larger file is read as %v", big)
	}
	if read("0123456789A") != big {
		t.Error("a large file differs from itself")
	}
	for _, other := range []string{"0123456789AB", "x123456789A"} {
		if read(other) == big {
			t.Errorf("%q is read as the same", other)
		}
	}
	d.must(os.Chtimes(d.path("file"), time.Unix(1, 0), time.Unix(1, 0)))
	if r.read(d.path("file"), time.Now(), true) == big {
		t.Error("a large file of another time is read as the same")
	}
}

func TestReader_TrustsAnIdentityOnlyWhenItHasLongBeenTheSame(t *testing.T) {
	d := disk{t, t.TempDir()}
	d.create("file", "text")
	path, now := d.path("file"), time.Now()
	r, stale := newReader(), content("what is remembered")
	read := func(after time.Duration, deep bool) bool {
		if m := r.files[path]; m != nil {
			m.reading = stale
		}
		return r.read(path, now.Add(after), deep) != stale
	}
	for _, step := range []struct {
		after time.Duration
		deep  bool
		want  bool // the file is read
		why   string
	}{
		{0, false, true, "never read before"},
		{firmAge - ms, false, true, "too young"},
		{firmAge, false, true, "old enough, not read since"},
		{firmAge + ms, false, false, "old, and read when it was"},
		{firmAge + ms, true, true, "deep"},
		{firmAge + 2*ms, false, false, "still the same"},
	} {
		if got := read(step.after, step.deep); got != step.want {
			t.Errorf("after %v (%s): read %v, want %v", step.after, step.why, got, step.want)
		}
	}
	d.write("file", "other text")
	if !read(2*firmAge, false) {
		t.Error("a file of another identity is not read")
	}
	if !read(2*firmAge+ms, false) {
		t.Error("a new identity is trusted at once")
	}
	r.views(nil, now, false)
	if len(r.files) > 0 {
		t.Error("the reader remembers files nobody asks for")
	}
}

func TestReader_OwnWantOfDescriptorsIsNoChange(t *testing.T) {
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE, &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOMEM}} {
		if !exhausted(err) {
			t.Errorf("%v is taken for the file's", err)
		}
	}
	for _, err := range []error{nil, fs.ErrNotExist, syscall.EACCES, errors.New("other")} {
		if exhausted(err) {
			t.Errorf("%v is taken for our own", err)
		}
	}
	d := disk{t, t.TempDir()}
	d.create("file", "text")
	all := targets([]Item{{Path: d.root, Dir: true}})
	survey(all)
	r := newReader()
	before := fmt.Sprint(r.views(all, time.Now(), true))
	restore := starve(t)
	survey(all)
	after := fmt.Sprint(r.views(all, time.Now(), true))
	restore()
	if before != after {
		t.Errorf("seen without descriptors:\n%s\nwith:\n%s", after, before)
	}
}

// starve takes every free descriptor below a low limit.
func starve(t *testing.T) (restore func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReader_ADirectoryThatCannotBeListedHasFailed(t *testing.T) {
	d := disk{t, t.TempDir()}
	all := []*target{{item: id{d.root, true}, list: listing{err: syscall.EACCES}}}
	got := newReader().views(all, time.Now(), true)
	if want := failure(syscall.EACCES); got[0].files[0].reading != want {
		t.Errorf("read as %v, want %v", got[0].files[0].reading, want)
	}
}

func TestReader_AFileIsNoDirectory(t *testing.T) {
	d := disk{t, t.TempDir()}
	d.create("file", "text")
	all := targets([]Item{{Path: d.path("file"), Dir: true}})
	survey(all)
	if got := newReader().views(all, time.Now(), true)[0].files[0].reading; got.kind != special {
		t.Errorf("read as %v", got)
	}
}

func TestRemote_KnowsTheFileSystemsThatDoNotNotify(t *testing.T) {
	for name, magic := range map[string]uint32{
		"nfs": 0x6969, "smb": 0x517b, "smb2": 0xfe534d42, "cifs": 0xff534d42,
		"9p": 0x01021997, "fuse": 0x65735546, "vboxsf": 0x786f4256,
	} {
		if !isRemote(magic) {
			t.Errorf("%s is taken for local", name)
		}
	}
	for name, magic := range map[string]uint32{
		"ext4": 0xef53, "btrfs": 0x9123683e, "xfs": 0x58465342, "tmpfs": 0x01021994, "overlay": 0x794c7630, "zfs": 0x2fc12fc1,
	} {
		if isRemote(magic) {
			t.Errorf("%s is taken for remote", name)
		}
	}
	if remote("/none") {
		t.Error("a directory that is not there is remote")
	}
}

func TestReader_DigestIsTheSumOfTheContent(t *testing.T) {
	d := disk{t, t.TempDir()}
	text := strings.Repeat("0123456789abcdef", 20_000) // more than one buffer
	d.create("file", text)
	if got := newReader().read(d.path("file"), time.Now(), true); got.digest != sha256.Sum256([]byte(text)) {
		t.Error("the digest is not the SHA-256 of the content")
	}
}
