import { createCallReceipts, verifyCallReceipt } from '../../../calls/call-receipts.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { formatUsdc } from '../../../core/money.ts'
import {
  createCallLogStore,
  type CallLogEntry,
  type CallLogStore,
} from '../../../persistence/calls/call-log-store.ts'
import { loadConfig } from '../../config.ts'
import { loadExistingMasterKeys, loadStationKeys } from '../../master-key.ts'
import { CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { printJson, printLine } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'

/** `gas receipt`. Older receipts do not contain call id and owner: they need all three arguments. */
export const receiptCliVerb: CliVerb = {
  forms: ['<receipt>', '<agent_id> <call_id> <receipt>'],
  about: 'The second form is for receipts that do not name their call. Exit code 1 if it is none.',
  options: CLI_JSON_OPTION,
  async run(given) {
    const { words } = given
    if (words.length !== 1 && words.length !== 3) throw new CliUsageError('')
    const config = loadConfig()
    const found = await withStationDatabase(async ({ sql }) => {
      const log = createCallLogStore(sql)
      const { receipts: key } = await loadStationKeys(sql, loadExistingMasterKeys(config))
      const [first = '', callId = '', third = ''] = words
      return words.length === 1
        ? createCallReceipts(key, log).findCall(first)
        : findVerifiedCall(log, key, { owner: first, callId, receipt: third })
    }, config)
    if (given.has('json')) printJson(presentFinding(found))
    else if (found === null) printLine('not a receipt of this ledger')
    else printLine(`valid: ${found.tool} for ${formatUsdc(found.cost)} USDC by ${found.rail}`)
    return found === null ? 1 : 0
  },
}

type ReceiptedCall = Pick<CallLogEntry, 'tool' | 'cost' | 'rail'>

const presentFinding = (found: ReceiptedCall | null) =>
  found === null
    ? { valid: false }
    : {
        valid: true,
        tool: found.tool,
        cost_usdc: Number(formatUsdc(found.cost)),
        rail: found.rail,
      }

async function findVerifiedCall(
  log: CallLogStore,
  key: Buffer,
  { owner, callId, receipt }: { owner: string; callId: string; receipt: string },
): Promise<CallLogEntry | null> {
  const call = isUuid(owner) && isUuid(callId) ? await log.find(owner, callId) : null
  if (call === null) return null
  const row = { ...call, agentId: owner, at: call.at.getTime() }
  return verifyCallReceipt(key, row, owner, receipt) ? call : null
}
