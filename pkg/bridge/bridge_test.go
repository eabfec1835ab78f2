package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRun_RelaysLinesAndIDsAsTheyAreSpelled(t *testing.T) {
	r := newRig(t)
	p := r.greeted(r.listen())
	for _, id := range []string{
		"0", "-1", "1.50e3", "9007199254740993", `"1"`, `"null"`, `""`, `"\u0041\n"`, `"` + strings.Repeat("long", 2000) + `"`,
	} {
		line := `{ "id" : ` + id + ` , "method":"tools\/call", "params" : {"name":"x","n":1.0}, "more":[ ] }`
		r.send(line)
		p.gets(line)
		answer := `{"result":{"id":7, "x":1.0}  ,"id":` + id + `,"jsonrpc":"2.0"}`
		p.say(answer)
		r.gets(answer)
	}
	p.say(changed("tools"), `{"jsonrpc":"2.0","id":5,"method":"roots/list"}`)
	r.gets(changed("tools"), `{"jsonrpc":"2.0","id":5,"method":"roots/list"}`)
	r.send(`{"jsonrpc":"2.0","id":5,"result":{}}`, `{"jsonrpc":"2.0","method":"x"}`)
	p.gets(`{"jsonrpc":"2.0","id":5,"result":{}}`, `{"jsonrpc":"2.0","method":"x"}`)
	r.end()
}

func TestRun_RelaysLargeLinesAmongSmallOnes(t *testing.T) {
	r := newRig(t)
	p := r.greeted(r.listen())
	for _, n := range []int{large - 1, large, large + 1, 1 << 20, 9 << 20} {
		big := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":"` + strings.Repeat("y", n) + `"}}`
		small := ask("2", "tools/call")
		go r.send(small, big, ask("3", "tools/call"))
		p.gets(small, big, ask("3", "tools/call"))
		answer := result("1", `"`+strings.Repeat("z", n)+`"`)
		go p.say(result("2", "{}"), answer, result("3", "{}"))
		r.gets(result("2", "{}"), answer, result("3", "{}"))
	}
	r.end()
}

func TestRun_FailsWhatAKilledDaemonHadAndSendsNoneOfItAgain(t *testing.T) {
	r := newRig(t)
	p := r.greeted(r.listen())
	asks := []string{ask("1", "tools/call"), ask("2", "prompts/get"), ask("3", "tools/call"), ask("4", "tools/call")}
	r.send(asks...)
	p.gets(asks...)
	p.say(result("3", "{}"))
	p.sayRaw(`{"jsonrpc":"2.0","id":4,"result":{"half":`)
	p.kill()
	r.gets(result("3", "{}"), toolFailure("1", lostText), requestFailure("2", lostText), toolFailure("4", lostText))

	r.send(ask("5", "tools/call"))
	p = r.listen().accept()
	p.answers(helloID, "{}")
	p.gets(ready, ask("5", "tools/call"))
	// A late answer of another daemon is nobody's.
	p.say(result("4", "{}"), result("5", "{}"), result("5", "{}"))
	r.gets(result("5", "{}"))
	r.quiet()
	r.end()
}

func TestRun_RepeatsTheHandshakeAndTellsWhichListsDiffer(t *testing.T) {
	r := newRig(t)
	p := r.greeted(r.listen())
	setLevel := `{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"error"}}`
	refused := `{"jsonrpc":"2.0","id":4,"method":"logging/setLevel","params":{"level":"loud"}}`
	r.send(tools, prompts, setLevel, refused)
	p.gets(tools, prompts, setLevel, refused)
	answers := []string{
		result("1", `{"tools":["a"]}`), result("2", `{"prompts":["a"]}`), result("3", "{}"),
		`{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"no"}}`,
	}
	p.say(answers...)
	r.gets(answers...)

	for _, c := range []struct {
		tools, prompts string
		news           []string
	}{
		{`{"tools":["a"]}`, `{"prompts":["a"]}`, nil},
		{`{"tools":["b"]}`, `{"prompts":["a"]}`, []string{changed("tools")}},
		{`{"tools":["b"]}`, `{"prompts":[]}`, []string{changed("tools"), changed("prompts")}},
	} {
		p.kill()
		p = r.listen().accept()
		p.answers(helloID, "{}")
		p.gets(ready)
		p.answers(strings.Replace(setLevel, `"id":3`, `"id":ID`, 1), "{}")
		p.answers(toolsID, c.tools)
		p.answers(promptID, c.prompts)
		r.gets(c.news...)
		// Nothing else comes, and the session works.
		r.send(ask("9", "tools/call"))
		p.gets(ask("9", "tools/call"))
		p.say(result("9", "{}"))
		r.gets(result("9", "{}"))
	}
	r.end()
}

func TestRun_RepeatsTheSubscriptionsThatWereAnswered(t *testing.T) {
	r := newRig(t)
	p := r.greeted(r.listen())
	subscription := func(id, method, uri string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"resources/%s","params":{"uri":%s,"x":1.0}}`, id, method, uri)
	}
	subscribe := func(id, uri string) string { return subscription(id, "subscribe", uri) }
	refused := `{"jsonrpc":"2.0","id":3,"error":{"code":-32002,"message":"no"}}`
	asked := []string{
		subscribe("1", `"demo://a"`), subscribe("2", `"demo:\u002f/b"`), subscribe("3", `"demo://none"`), subscribe("4", `"demo://c"`),
		subscription("5", "unsubscribe", `"demo://c"`), subscription("6", "unsubscribe", `"demo://a"`),
	}
	answers := []string{result("1", "{}"), result("2", "{}"), refused, result("4", "{}"), result("5", "{}")}
	r.send(asked...)
	p.gets(asked...)
	p.say(answers...)
	r.gets(answers...)
	p.kill() // with one that has no answer: it may have had no effect
	r.gets(requestFailure("6", lostText))

	for range 2 {
		p = r.listen().accept()
		p.answers(helloID, "{}")
		p.gets(ready)
		var repeated []string
		for _, uri := range []string{`"demo://a"`, `"demo:\u002f/b"`} {
			id, rest := p.asked()
			if diff := cmp.Diff(subscribe("ID", uri), rest); diff != "" {
				t.Error(diff)
			}
			repeated = append(repeated, result(id, "{}"))
		}
		// The session goes on before they are answered, and hears of no answer.
		r.send(ask("9", "tools/call"))
		p.gets(ask("9", "tools/call"))
		p.say(append(repeated, result("9", "{}"))...)
		r.gets(result("9", "{}"))
		p.kill()
	}
	// Repeated again and again, and ended once for all.
	p = r.listen().accept()
	p.answers(helloID, "{}")
	p.gets(ready)
	p.asked()
	p.asked()
	r.send(subscription("7", "unsubscribe", `"demo://b"`))
	p.gets(subscription("7", "unsubscribe", `"demo://b"`))
	p.say(result("7", "{}"))
	r.gets(result("7", "{}"))
	p.kill()
	p = r.listen().accept()
	p.answers(helloID, "{}")
	p.gets(ready)
	p.asked()
	r.send(ask("8", "tools/call"))
	p.gets(ask("8", "tools/call"))
	p.say(result("8", "{}"))
	r.gets(result("8", "{}"))
	r.end()
}

func TestRun_LosesNoNotificationThatComesDuringTheHandshake(t *testing.T) {
	r := newRig(t)
	p := r.greeted(r.listen())
	r.send(tools, prompts)
	p.gets(tools, prompts)
	p.say(result("1", `{"tools":["a"]}`), result("2", `{"prompts":["a"]}`))
	r.gets(result("1", `{"tools":["a"]}`), result("2", `{"prompts":["a"]}`))
	p.kill()

	p = r.listen().accept()
	message := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}`
	id, _ := p.asked()
	p.say(message, result(id, "{}"))
	p.gets(ready)
	toolsAsked, _ := p.asked()
	promptsAsked, _ := p.asked()
	p.say(
		changed("prompts"), // and the list that is told later has it
		result(toolsAsked, `{"tools":["a"]}`), changed("tools"), changed("resources"), message,
		result(promptsAsked, `{"prompts":["a"]}`),
	)
	r.gets(message, message, changed("tools"), changed("resources"))
	r.quiet()
	r.end()
}

func TestRun_KeepsTheOrderOfAnAgentThatDoesNotWait(t *testing.T) {
	r := newRig(t)
	setLevel := `{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"error"}}`
	r.send(hello, ready, tools, setLevel, ask("4", "tools/call"), `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	r.quiet()
	p := r.listen().accept()
	p.gets(hello, ready, tools, setLevel, ask("4", "tools/call"))
	p.say(welcome)
	r.gets(welcome)
	// Killed again before the rest is answered.
	p.kill()
	r.gets(requestFailure("1", lostText), requestFailure("3", lostText), toolFailure("4", lostText))
	p = r.listen().accept()
	p.answers(helloID, "{}")
	p.gets(ready) // no level, no list: none was ever set or given
	r.send(ask("5", "tools/call"))
	p.gets(ask("5", "tools/call"))
	p.say(result("5", "{}"))
	r.gets(result("5", "{}"))
	r.end()
}

func TestRun_SendsAnUnansweredInitializeToTheNextDaemonFirst(t *testing.T) {
	r := newRig(t)
	p := r.listen().accept()
	r.send(hello, ready, ask("1", "tools/call"))
	p.gets(hello, ready, ask("1", "tools/call"))
	p.kill()
	r.gets(toolFailure("1", lostText))
	r.send(ask("2", "tools/call"))
	p = r.listen().accept()
	p.gets(hello, ready, ask("2", "tools/call"))
	p.say(welcome, result("2", "{}"))
	r.gets(welcome, result("2", "{}"))
	r.end()
}

func TestRun_LinksAnAgentThatNeverSaidInitialize(t *testing.T) {
	r := newRig(t)
	r.send(ready, tools)
	r.quiet()
	p := r.listen().accept()
	p.gets(tools)
	p.say(result("1", "{}"))
	r.gets(result("1", "{}"))
	r.end()
}

func TestRun_ForgetsCancelledRequests(t *testing.T) {
	r := newRig(t)
	d := r.listen()
	p := r.greeted(d)
	cancel := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
	}
	r.send(ask("1", "tools/call"), ask(`"2"`, "tools/call"), cancel("1"), cancel("2"), cancel("77"))
	p.gets(ask("1", "tools/call"), ask(`"2"`, "tools/call"), cancel("1"), cancel("2"), cancel("77"))
	p.say(result("1", "{}"), result(`"2"`, "{}"))
	r.gets(result(`"2"`, "{}"))

	// One that was held is never sent.
	p.kill()
	r.send(ask("3", "tools/call"), ask("4", "tools/call"), cancel("3"))
	r.quiet()
	p = r.listen().accept()
	p.answers(helloID, "{}")
	p.gets(ready, ask("4", "tools/call"))

	// One without an answer does not keep the bridge from ending.
	r.send(ask("5", "tools/call"), cancel("5"))
	p.gets(ask("5", "tools/call"), cancel("5"))
	p.say(result("4", "{}"))
	r.gets(result("4", "{}"))
	r.end()
}

func TestRun_DoesNotForgetACancelledInitialize(t *testing.T) {
	r := newRig(t)
	p := r.listen().accept()
	r.send(hello, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
	p.gets(hello)
	p.say(welcome)
	r.gets(welcome)
	r.end()
}

func TestRun_RefusesTheIDOfARequestInFlight(t *testing.T) {
	r := newRig(t)
	p := r.greeted(r.listen())
	r.send(ask("1", "tools/call"), ask("1", "prompts/get"), ask(`"1"`, "tools/call"))
	r.gets(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"invalid request: the id is that of a request still in flight"}}`)
	p.gets(ask("1", "tools/call"), ask(`"1"`, "tools/call"))
	p.say(result("1", "{}"), result(`"1"`, "{}"))
	r.gets(result("1", "{}"), result(`"1"`, "{}"))
	// An id that was answered is free.
	r.send(ask("1", "tools/call"))
	p.gets(ask("1", "tools/call"))
	p.say(result("1", "{}"))
	r.gets(result("1", "{}"))
	r.end()
}

func TestRun_AnswersWhatIsNoMessage(t *testing.T) {
	r := newRig(t)
	answers := []string{
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: invalid JSON at byte 8: a value is missing or is no JSON"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: a batch is not supported"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"invalid request: duplicate key"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: neither a request with an id, nor a notification, nor a response"}}`,
	}
	broken := []string{"", `{"id":1,nope}`, `[]`, `{"id":1,"id":1,"method":"x"}`, `{"id":null,"method":"x"}`}
	check := func() {
		t.Helper()
		r.send(broken...)
		first := next(t, r.lines)
		if !strings.HasPrefix(first, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: `) {
			t.Error(first)
		}
		r.gets(answers[1:]...)
	}
	check()
	p := r.greeted(r.listen())
	check()
	r.send(ask("1", "tools/call"))
	p.gets(ask("1", "tools/call"))
	p.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`, `{"id":1,"result":{}`, `"x"`, `{"id":9}`, result("1", "{}"))
	r.gets(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`, result("1", "{}"))
	r.end()
}

func TestRun_AnswersInThePlaceOfWhatIsTooLong(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxMessage = 100 << 10 })
	p := r.greeted(r.listen())
	long := strings.Repeat("x", 200<<10)
	r.send(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":"`+long+`"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"x","params":{"x":"`+long+`"}}`,
		`{"jsonrpc":"2.0","method":"x","params":{"x":"`+long+`"}}`,
		ask("3", "tools/call"),
	)
	for _, id := range []string{`"id":1,"result":`, `"id":2,"error":`} {
		if line := next(t, r.lines); !strings.Contains(line, id) || !strings.Contains(line, `"code":"message_too_large"`) {
			t.Error(line)
		}
	}
	p.gets(ask("3", "tools/call"))
	p.say(result("9", `"`+long+`"`), result("3", `"`+long+`"`), result("3", "{}"))
	if line := next(t, r.lines); !strings.Contains(line, `"id":3,"result":`) || !strings.Contains(line, `"code":"message_too_large"`) {
		t.Error(line)
	}
	r.quiet()
	r.end()
}

func TestRun_DeliversWhatIsDueAfterTheEndOfInput(t *testing.T) {
	r := newRig(t)
	p := r.greeted(r.listen())
	r.send(ask("1", "tools/call"), ask("2", "tools/call"))
	if _, err := io.WriteString(r.in, ask("3", "tools/call")); err != nil { // and no newline
		t.Fatal(err)
	}
	r.in.Close()
	p.gets(ask("1", "tools/call"), ask("2", "tools/call"), ask("3", "tools/call"))
	big := result("3", `"`+strings.Repeat("z", 3<<20)+`"`)
	go p.say(result("1", "{}"), changed("tools"), result("2", "{}"), big)
	r.gets(result("1", "{}"), changed("tools"), result("2", "{}"), big, "")
	r.over()
}

func TestRun_WaitsNoLongerThanTheGraceAfterTheEndOfInput(t *testing.T) {
	r := newRig(t, func(o *Options) { o.StopGrace = 50 * time.Millisecond })
	p := r.greeted(r.listen())
	r.send(ask("1", "tools/call"))
	p.gets(ask("1", "tools/call"))
	r.end()
	r.gets("")
	p.gets("") // the daemon sees the end, and may cancel the call
}

// What is answered when the bridge is asked to end reaches the agent, and what
// is not is not waited for.
func TestRun_DeliversWhatIsAnsweredWhenItIsAskedToEnd(t *testing.T) {
	asked := make(chan struct{})
	r := bareRig(t, func(o *Options) { o.Asked = asked })
	p := r.listen().accept()
	r.send(hello, ready, ask("1", "tools/call"), ask("2", "tools/call"))
	p.gets(hello, ready, ask("1", "tools/call"), ask("2", "tools/call"))
	answer := result("1", `"`+strings.Repeat("z", 32<<10)+`"`)
	p.say(welcome, answer)
	close(asked)
	go read(r.out, r.lines)
	r.gets(welcome, answer, "")
	r.over()
	p.gets("")
}

func TestRun_EndsOnceTheAgentDoesNotRead(t *testing.T) {
	r := bareRig(t)
	p := r.listen().accept()
	r.out.Close()
	p.say(changed("tools"))
	r.over() // although the input is open
	p.gets("")
}

func TestRun_EndsWithAnAgentThatLetsItsOutputFill(t *testing.T) {
	r := bareRig(t, func(o *Options) { o.StopGrace = 50 * time.Millisecond })
	p := r.listen().accept()
	r.send(hello)
	p.gets(hello)
	go p.conn.Write([]byte(welcome + "\n" + strings.Repeat(changed("tools")+"\n", 1<<16)))
	r.end()
}

func TestRun_AnAgentThatReadsLateMissesNothing(t *testing.T) {
	r := bareRig(t)
	p := r.listen().accept()
	r.send(hello, ready, ask("1", "tools/call"))
	p.gets(hello, ready, ask("1", "tools/call"))
	answer := result("1", `"`+strings.Repeat("z", 1<<20)+`"`)
	p.say(welcome, answer, changed("tools"))
	// The link is lost while most of that is still on its way.
	p.kill()
	go read(r.out, r.lines)
	r.gets(welcome, answer, changed("tools"))
	p = r.listen().accept()
	p.answers(helloID, "{}")
	p.gets(ready)
	r.end()
}

func TestRun_ReadsAnAgentThatSendsBeforeItReads(t *testing.T) {
	r := bareRig(t)
	p := r.listen().accept()
	r.send(hello, ready)
	p.gets(hello, ready)
	answer := result("1", `"`+strings.Repeat("z", 1<<20)+`"`)
	r.send(ask("1", "tools/call"))
	p.gets(ask("1", "tools/call"))
	// Its output is full, so the bridge waits there.
	p.say(welcome, answer)
	var asks, answers []string
	for i := range 1000 {
		id := strconv.Itoa(i + 2)
		asks, answers = append(asks, ask(id, "tools/call")), append(answers, result(id, "{}"))
	}
	r.send(asks...)
	p.gets(asks...)
	go read(r.out, r.lines)
	r.gets(welcome, answer)
	p.say(answers...)
	r.gets(answers...)
	r.end()
}

func TestRun_HoldsWhatADeadLinkDidNotTake(t *testing.T) {
	r := newRig(t)
	d := r.listen()
	p := d.acceptDeaf()
	// More than the socket holds, so that the last one was not even begun.
	huge := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"x":"` + strings.Repeat("y", 3<<20) + `"}}`
	}
	go r.send(huge("1"), huge("2"), huge("3"))
	// It has taken a part of the first.
	if _, err := io.ReadFull(p.conn, make([]byte, 1<<10)); err != nil {
		t.Fatal(err)
	}
	p.kill()
	r.gets(toolFailure("1", lostText))
	p = r.listen().accept()
	p.gets(huge("2"), huge("3"))
	go p.say(result("2", "{}"), result("3", "{}"))
	r.gets(result("2", "{}"), result("3", "{}"))
	r.end()
}

func TestRun_HearsTheLastWordsOfADaemonThatTakesNothingMore(t *testing.T) {
	r := newRig(t)
	p := r.greeted(r.listen())
	r.send(ask("1", "tools/call"))
	p.gets(ask("1", "tools/call"))
	if err := p.conn.CloseRead(); err != nil {
		t.Fatal(err)
	}
	r.send(ask("2", "tools/call"))
	p.daemon.on.Close()
	d := r.listen()
	p.say(result("1", "{}"))
	r.gets(result("1", "{}"))
	// It does not end by itself; it is left.
	p = d.accept()
	p.answers(helloID, "{}")
	p.gets(ready, ask("2", "tools/call"))
	p.say(result("2", "{}"))
	r.gets(result("2", "{}"))
	r.end()
}

func TestRun_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	in, out := io.Pipe()
	defer out.Close()
	ended := make(chan error)
	go func() {
		ended <- Run(ctx, Options{In: in, Out: io.Discard, Dial: func(context.Context) (net.Conn, error) { return nil, os.ErrNotExist }, StopGrace: patience})
	}()
	why := errors.New("why")
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestRun_ReturnsWhatBrokeTheInput(t *testing.T) {
	why := errors.New("why")
	in, out := io.Pipe()
	out.CloseWithError(why)
	err := Run(t.Context(), Options{In: in, Out: io.Discard, Dial: func(context.Context) (net.Conn, error) { return nil, os.ErrNotExist }, StopGrace: patience})
	if !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
