// An agent outside the fleet on the official TypeScript SDK: it gets a verdict of
// every kind and prints each. Its arguments are the framing and the server.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [framing, modules, command, ...args] = process.argv.slice(2);
const sdk = (path) => import(pathToFileURL(join(modules, '@modelcontextprotocol/sdk/dist/esm', path)));
const { Client } = await sdk('client/index.js');
const { StdioClientTransport } = await sdk('client/stdio.js');

// Framed speaks Content-Length, which the SDK has no transport for.
class Framed {
  async start() {
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    let buffer = Buffer.alloc(0);
    this.child.stdout.on('data', (chunk) => {
      buffer = Buffer.concat([buffer, chunk]);
      for (;;) {
        const end = buffer.indexOf('\r\n\r\n');
        if (end < 0) return;
        const header = /^Content-Length: (\d+)$/.exec(buffer.subarray(0, end).toString());
        if (!header) throw new Error(`answered in another framing: ${buffer}`);
        const from = end + 4, to = from + Number(header[1]);
        if (buffer.length < to) return;
        const message = JSON.parse(buffer.subarray(from, to).toString());
        buffer = buffer.subarray(to);
        this.onmessage?.(message);
      }
    });
    this.child.on('close', () => this.onclose?.());
  }
  get pid() { return this.child.pid; }
  async send(message) {
    const body = Buffer.from(JSON.stringify(message));
    this.child.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.child.stdin.write(body);
  }
  async close() { this.child.stdin.end(); }
}

async function connect() {
  const transport = framing === 'headers' ? new Framed() : new StdioClientTransport({ command, args, env: process.env });
  const client = new Client({ name: 'outsider', version: '1' });
  await client.connect(transport);
  return { client, pid: transport.pid };
}

const check = (cmd, ...args) => `[contract]\nname='x'\nenv=['PATH']\ntimeout='10s'\n[[check]]\nname='a'\ncmd='${cmd}'\nargs=${JSON.stringify(args)}\n`;
const ask = async (client, name, args, options) => {
  const result = await client.callTool({ name, arguments: args }, undefined, { timeout: 120000, ...options });
  if (result.isError) throw new Error(result.content[0].text);
  return result.structuredContent;
};
const settled = async (client, session) => {
  for (;;) {
    const a = await ask(client, 'harness_contract_status', { session });
    if (a.status !== 'running') return a;
    await new Promise((r) => setTimeout(r, 20));
  }
};

let { client, pid } = await connect();
console.log('tools', (await client.listTools()).tools.map((t) => t.name).sort().join(' '));
const kinds = {
  pass: check('true'), fail: check('false'), error: check('no-such-command'),
  timeout: check('sleep', '60').replace('10s', '200ms'),
};
for (const [kind, contract] of Object.entries(kinds)) {
  const sync = await ask(client, 'harness_run_contract', { contract, session: `${framing}-${kind}` });
  const handle = await ask(client, 'harness_run_contract', { contract, session: `${framing}-${kind}-async`, async: true });
  const later = await settled(client, `${framing}-${kind}-async`);
  console.log(kind, sync.verdict.outcome, handle.session, later.verdict.outcome);
}
// Cancelled: the client gives up, and the verdict says so.
const abort = new AbortController();
let told = 0;
const given = ask(client, 'harness_run_contract', { contract: check('sleep', '60').replace('10s', '10m'), session: `${framing}-cancel` },
  { signal: abort.signal, onprogress: () => { if (++told === 1) abort.abort('enough'); } }).catch(() => null);
await given;
console.log('cancel', (await settled(client, `${framing}-cancel`)).verdict.outcome);
// Killed in the middle, and gone on with by another server.
const once = check('sh', '-c', `echo x >> ${framing}-ran; while [ ! -e ${framing}-go ]; do sleep 0.02; done`).replaceAll('"', "'")
  + `[[check]]\nname='b'\ncmd='sh'\nargs=['-c', 'echo y >> ${framing}-ran']\n`;
const { existsSync, readFileSync, writeFileSync } = createRequire(import.meta.url)('node:fs');
await ask(client, 'harness_run_contract', { contract: once, session: `${framing}-killed`, async: true });
// The shell makes the file before it writes to it: what tells that the step is on is the line.
while (!existsSync(`${framing}-ran`) || readFileSync(`${framing}-ran`, 'utf8') !== 'x\n') await new Promise((r) => setTimeout(r, 20));
process.kill(pid, 'SIGKILL');
({ client, pid } = await connect());
console.log('killed', (await settled(client, `${framing}-killed`)).status);
writeFileSync(`${framing}-go`, '');
const rest = await ask(client, 'harness_run_contract', { contract: once, session: `${framing}-killed` });
console.log('resumed', rest.verdict.outcome, readFileSync(`${framing}-ran`, 'utf8').split('\n').join(''));
// What is exported, verifies; nothing else is there.
writeFileSync(`${framing}.json`, JSON.stringify(await ask(client, 'harness_ledger_export', { session: `${framing}-killed` })));
for (const name of ['harness_list', 'harness_start', 'sh']) await client.callTool({ name, arguments: {} }).then((r) => r.isError ? console.log('refused', r._meta['harness/error'].code) : console.log('called', name), (e) => console.log('refused', e.code));
await client.close();
