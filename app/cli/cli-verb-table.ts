import type { CliVerbEntry, CliVerbTable } from './cli-verb.ts'

/** All verbs of `gas`: one line and one file each. A file is loaded when its verb is used. */

const entryOf =
  (group: CliVerbEntry['group']) =>
  (summary: string, load: CliVerbEntry['load']): CliVerbEntry => ({ group, summary, load })
const agent = entryOf('agent')
const operator = entryOf('operator')
const general = entryOf('general')

export const CLI_VERBS: CliVerbTable = {
  onboard: agent(
    'registers an agent',
    async () => (await import('./agent/onboard-verb.ts')).onboardVerb,
  ),
  call: agent('calls a tool', async () => (await import('./agent/call-verb.ts')).callVerb),
  tools: agent(
    'lists the catalogue; imports tools to sell',
    async () => (await import('./agent/tools-verb.ts')).toolsVerb,
  ),
  task: agent(
    'starts, ends and shows tasks with a budget',
    async () => (await import('./agent/task-verb.ts')).taskVerb,
  ),
  bounty: agent(
    'lists, posts and claims bounties',
    async () => (await import('./agent/bounty-verb.ts')).bountyVerb,
  ),
  keys: agent(
    'lists, creates, rotates and revokes API keys',
    async () => (await import('./agent/keys-verb.ts')).keysVerb,
  ),
  freeze: agent(
    'freezes the agent: no key of it spends or acts',
    async () => (await import('./agent/freeze-verb.ts')).freezeVerb,
  ),
  unfreeze: agent(
    'lets a frozen agent go on',
    async () => (await import('./agent/freeze-verb.ts')).unfreezeVerb,
  ),
  tail: agent(
    'prints events as they come',
    async () => (await import('./agent/tail-verb.ts')).tailVerb,
  ),
  config: agent(
    'shows or sets the station and the key of these verbs',
    async () => (await import('./agent/config-verb.ts')).configVerb,
  ),
  balance: agent(
    'shows the credits of the agent',
    async () => (await import('./agent/balance-verb.ts')).balanceVerb,
  ),

  mcp: agent(
    'is an MCP server for desktop clients; installs itself in one',
    async () => (await import('./mcp/mcp-verb.ts')).mcpVerb,
  ),

  serve: operator(
    'runs the station, like npm start',
    async () => (await import('./operator/serve-verb.ts')).serveVerb,
  ),
  start: operator(
    'the same as serve',
    async () => (await import('./operator/serve-verb.ts')).serveVerb,
  ),
  migrate: operator(
    'brings the schema of the database up to date',
    async () => (await import('./operator/migrate-verb.ts')).migrateVerb,
  ),
  verify: operator(
    'recomputes every balance from the ledger and checks the invariants',
    async () => (await import('./operator/verify-verb.ts')).verifyVerb,
  ),
  receipt: operator(
    'checks a receipt against the ledger',
    async () => (await import('./operator/receipt-verb.ts')).receiptVerb,
  ),
  attest: operator(
    'checks saved heads, proofs and receipts offline; changes the key that signs them',
    async () => (await import('./operator/attest-verb.ts')).attestVerb,
  ),
  inspect: operator(
    'prints a link to the inspector that opens once',
    async () => (await import('./operator/inspect-verb.ts')).inspectVerb,
  ),
  history: operator(
    'shows the past states of an actor, from the journal',
    async () => (await import('./operator/history-verb.ts')).historyVerb,
  ),
  archive: operator(
    'moves old months of the journal to files, which history reads; lists them',
    async () => (await import('./operator/archive-verb.ts')).archiveVerb,
  ),
  doctor: operator(
    'shows what the station can use on this machine, with these settings',
    async () => (await import('./operator/doctor-verb.ts')).doctorVerb,
  ),
  drop: operator(
    'opens a radio drop: ten slots for two hours; lists the latest',
    async () => (await import('./operator/drop-verb.ts')).dropVerb,
  ),
  grant: operator(
    'gives an agent promotional credits; the same --id gives them once',
    async () => (await import('./operator/grant-verb.ts')).grantVerb,
  ),
  dlq: operator(
    'lists permanent failures; makes one due again',
    async () => (await import('./operator/dlq-verb.ts')).dlqVerb,
  ),
  settlement: operator(
    'lists payments with an unknown outcome; sets that of one on Solana',
    async () => (await import('./operator/settlement-verb.ts')).settlementVerb,
  ),
  'rotate-master-key': operator(
    'seals all secrets under the new master key',
    async () => (await import('./operator/rotate-master-key-verb.ts')).rotateMasterKeyVerb,
  ),

  help: general(
    'shows the verbs, or one of them',
    async () => (await import('./general/help-verb.ts')).helpVerb,
  ),
  completion: general(
    'prints a completion script for a shell',
    async () => (await import('./general/completion-verb.ts')).completionVerb,
  ),
  version: general(
    'shows the version',
    async () => (await import('./general/version-verb.ts')).versionVerb,
  ),
}
