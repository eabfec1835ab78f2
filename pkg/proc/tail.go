package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// tailLimit bounds what Tail reads in bytes, and so what it returns.
const tailLimit = 1 << 20

// Tail returns the last n lines of the log at path, oldest first and without
// their newlines, across rotation and within the last MiB. A log that does not
// exist is fs.ErrNotExist.
func Tail(path string, n int) ([]string, error) {
	text, err := readBack(path, n)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	if len(text) == 0 || n <= 0 {
		return nil, nil
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return lines[max(len(lines)-n, 0):], nil
}

// readBack reads the end of the log, from the current file to older ones,
// until it holds n lines or is as much as Tail may read.
func readBack(path string, n int) ([]byte, error) {
	var text []byte
	var last fs.FileInfo
	for i := 0; len(text) < tailLimit && bytes.Count(text, []byte("\n")) < n; i++ {
		part, info, err := readEnd(logName(path, i), tailLimit-len(text))
		switch {
		case errors.Is(err, fs.ErrNotExist) && i > 0:
			return text, nil
		case errors.Is(err, fs.ErrNotExist) && exists(logName(path, 1)): // just being rotated
			continue
		case err != nil:
			return nil, err
		case last != nil && os.SameFile(last, info): // rotated while we read
			continue
		}
		last = info
		text = append(part, text...)
	}
	return text, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readEnd reads the whole lines within the last limit bytes of a file.
func readEnd(path string, limit int) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	from := max(info.Size()-int64(limit), 0)
	text, err := io.ReadAll(io.NewSectionReader(f, from, int64(limit)))
	if err != nil {
		return nil, nil, err
	}
	if from > 0 {
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	return text, info, nil
}
