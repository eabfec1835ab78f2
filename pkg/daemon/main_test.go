package daemon

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// mirrorFlag makes the test binary an upstream that the test plays.
const mirrorFlag = "-mirror"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == mirrorFlag {
		mirror(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// mcpServer is a minimal MCP server on stdio: mcp.sh TOOLS [mute|exit|slow|deaf].
// It is a shell script and not the test binary run again, because that one,
// built to find races, takes a third of a second of a processor to start.
//
// Its tools answer with their argument text, one of "$NAME" with that variable
// of the environment, and the tool die not at all.
const mcpServer = `#!/bin/sh
echo "serving $1" >&2
case $2 in deaf) trap '' TERM ;; esac
tools=$(echo "$1" | sed 's/[^,]*/{"name":"&","inputSchema":{"type":"object"}}/g')
while IFS= read -r line; do
	case $line in *'"id":'*) ;; *) continue ;; esac
	id=${line#*'"id":'}
	id=${id%%,*}
	case $line in
	*'"method":"initialize"'*)
		case $2 in mute) continue ;; exit) exit 1 ;; slow) sleep 3600 ;; esac
		result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mcp.sh","version":"1"}}' ;;
	*'"method":"tools/list"'*)
		result="{\"tools\":[$tools]}" ;;
	*'"name":"die"'*)
		exit 3 ;;
	*)
		text=${line#*'"text":"'}
		text=${text%%'"'*}
		case $text in '$'*) text=$(printenv "${text#?}") ;; esac
		result="{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}" ;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
case $2 in deaf) sleep 3600 ;; esac
`
