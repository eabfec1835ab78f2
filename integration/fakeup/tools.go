package fakeup

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// args are the arguments of every tool, with their defaults set beforehand.
type args struct {
	Text   string `json:"text"`
	Name   string `json:"name"`
	Method string `json:"method"`
	Tag    string `json:"tag"`
	URI    string `json:"uri"`
	Level  string `json:"level"`
	Bytes  int    `json:"bytes"`
	MS     int    `json:"ms"`
	N      int    `json:"n"`
	Code   int    `json:"code"`
}

// call runs one tool. Those that take time do so on a goroutine of their own.
func (s *server) call(m message, c call) {
	a := args{Method: "roots/list", N: 4, MS: 5, Code: 3, Bytes: 1 << 20}
	json.Unmarshal(c.Arguments, &a)
	switch c.Name {
	case "raw":
		s.out.result(m.ID, `{"content":[],"structuredContent":`+string(m.Params)+`}`)
	case "sleep":
		time.AfterFunc(time.Duration(a.MS)*time.Millisecond, func() { s.out.result(m.ID, text("slept")) })
	case "hang":
	case "progress":
		go s.progress(m, c, a)
	case "tag":
		s.hold(s.out.answer(m.ID, text(a.Tag)))
	case "die":
		os.Exit(a.Code)
	case "last":
		s.out.unfinished(s.out.answer(m.ID, text("last words")))
		os.Exit(0)
	case "fail":
		s.out.result(m.ID, Failure)
	case "rpcerror":
		s.out.fault(m.ID, -32077, "out of cheese", `,"data":{"n":9007199254740993}`)
	case "ask":
		go func() {
			r := s.ask(a.Method)
			s.out.result(m.ID, text(string(r.Result)+string(r.Error)))
		}()
	default:
		s.out.result(m.ID, text(s.say(c.Name, a)))
	}
}

// say runs a tool whose result is one text, at once.
func (s *server) say(name string, a args) string {
	switch name {
	case "echo":
		return a.Text
	case "pid":
		return fmt.Sprint(os.Getpid())
	case "env":
		if a.Name == "" {
			return strings.Join(os.Environ(), "\n")
		}
		return os.Getenv(a.Name)
	case "blob":
		return strings.Repeat("x", a.Bytes)
	case "bigline":
		return BigText()
	case "noise":
		s.out.junk()
	case "burst":
		for range a.N {
			s.out.notify("notifications/tools/list_changed", "{}")
		}
	case "flood":
		flood(a.Bytes)
	case "update":
		s.out.notify("notifications/resources/updated", `{"uri":`+quote(a.URI)+`,"_meta":{"n":1.0}}`)
	case "message":
		s.out.notify("notifications/message", `{"level":`+quote(a.Level)+`,"logger":"fake","data":{"text":`+quote(a.Text)+`,"n":1.0}}`)
	case "log":
		fmt.Fprintln(os.Stderr, a.Text)
	case "deaf":
		s.mu.Lock()
		s.isDeaf = true
		s.mu.Unlock()
	}
	return name
}

// progress tells the caller n times how far it is, then answers.
func (s *server) progress(m message, c call, a args) {
	for i := range a.N {
		if c.Meta.ProgressToken != nil {
			s.out.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":%d}`, c.Meta.ProgressToken, i+1, a.N))
		}
		time.Sleep(time.Duration(a.MS) * time.Millisecond)
	}
	s.out.result(m.ID, text("done"))
}

// hold keeps an answer back until a moment passed, then gives all it has kept
// in reverse.
func (s *server) hold(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, answer)
	if len(s.held) == 1 {
		time.AfterFunc(hold, s.release)
	}
}

func (s *server) release() {
	s.mu.Lock()
	held := s.held
	s.held = nil
	s.mu.Unlock()
	for _, answer := range slices.Backward(held) {
		s.out.line(answer)
	}
}

// flood writes n bytes to stderr, without a newline.
func flood(n int) {
	chunk := []byte(strings.Repeat("noise ", 1<<12))
	for n > 0 {
		k, err := os.Stderr.Write(chunk[:min(n, len(chunk))])
		if err != nil {
			return
		}
		n -= k
	}
}

// Failure is the result of the tool "fail", byte for byte.
const Failure = `{"content":[{"type":"text","text":"the disk is full"}], "isError" : true,"structuredContent":{"free":1e400}, "x-kept":[1.0,{}]}`

// BigText is the result of the tool "bigline": 5 MiB of text that line
// readers and escapers get wrong.
func BigText() string {
	const unit = "große Zeile \u2028 语言 \u2029 \U0001F600 </script> & "
	return strings.Repeat(unit, 5<<20/len(unit)+1)
}
