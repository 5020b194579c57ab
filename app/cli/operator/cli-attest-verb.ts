import { parseVerifierKey, type NoteVerifierKey } from '../../../core/attestations/signed-note.ts'
import {
  verifySavedAttestations,
  type SavedAttestation,
} from '../../../core/attestations/verify-saved-attestations.ts'
import { deriveEncryptionKeys } from '../../../core/key-derivation-and-encryption.ts'
import { rotateAttestationKey } from '../../../persistence/attestations/attestation-key-store.ts'
import { acceptUnmatchedPublishedTreeHeads } from '../../../persistence/attestations/attestation-tree-writer.ts'
import { loadConfig } from '../../config.ts'
import { loadExistingMasterKeys } from '../../master-key.ts'
import { readTextFile } from '../cli-files.ts'
import { CliFailure, CliUsageError, type CliArguments, type CliVerb } from '../cli-verb.ts'
import { printJson, printLine } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'

/** `gas attest`. */
export const attestCliVerb: CliVerb = {
  forms: ['verify <file>… [--key <key>]', 'rotate-key [--leaked]', 'accept-restore'],
  about:
    'verify: checks saved answers of /api/attestations and of receipts offline, together: heads, consistency, proof, receipts. Exit code 1 if one does not hold. rotate-key: signs with a new key; the one before it signs too until the next rotation. accept-restore: accepts that published heads are ahead of a restored database.',
  options: {
    key: {
      value: 'key',
      description:
        'the key to trust, as /api/attestations/head lists it; else that of the first file, the head that you kept, for the others',
    },
    leaked: { description: 'the earlier keys sign nothing from now on' },
    json: { description: 'prints JSON, one value a line' },
  },
  examples: [
    'curl -s $GAS_URL/api/attestations/head > monday.json',
    'gas attest verify monday.json friday.json consistency.json',
  ],
  async run(given) {
    const [what, ...words] = given.words
    if (what === 'verify' && words.length > 0) return verifyFiles(words, given)
    if (words.length > 0) throw new CliUsageError('')
    if (what === 'rotate-key') return rotateKey(given.has('leaked'))
    if (what === 'accept-restore') return acceptRestore()
    throw new CliUsageError('')
  },
}

function verifyFiles(files: readonly string[], given: CliArguments): number {
  const answers = files.map(readAnswer)
  const text = given.text('key')
  const keys = text === null ? keysIn(answers) : [parseVerifierKey(text)]
  const known = keys.filter((key): key is NoteVerifierKey => key !== null)
  if (known.length === 0)
    throw new CliUsageError(
      'no key to trust: give --key, or name the head that you kept first and what is checked against it after it',
    )
  const findings = verifySavedAttestations(answers, known)
  for (const finding of findings) {
    if (given.has('json')) printJson({ file: finding.name, ok: finding.ok, says: finding.says })
    else printLine(`${finding.ok ? 'ok    ' : 'BROKEN'} ${finding.name}: ${finding.says}`)
  }
  return findings.every(({ ok }) => ok) ? 0 : 1
}

function readAnswer(name: string): SavedAttestation {
  try {
    return { name, json: JSON.parse(readTextFile(name)) as unknown }
  } catch (error) {
    throw new CliFailure(`${name}: ${(error as Error).message}`)
  }
}

/**
 * The keys of the first file, the head that was kept, for the files after it. A file proves nothing by the keys that
 * it brings along.
 */
function keysIn([kept, ...others]: readonly SavedAttestation[]): (NoteVerifierKey | null)[] {
  const { keys = null } = (kept?.json ?? {}) as { keys?: unknown }
  if (!Array.isArray(keys) || others.length === 0) return []
  return keys.map((key) => parseVerifierKey(String(key)))
}

function rotateKey(hasLeaked: boolean): Promise<number> {
  const config = loadConfig()
  const sealing = deriveEncryptionKeys(loadExistingMasterKeys(config), 'station')
  return withStationDatabase(async ({ sql }) => {
    const number = await rotateAttestationKey(sql, sealing, hasLeaked)
    const before = hasLeaked ? 'the earlier keys sign nothing any more' : 'the one before signs too'
    printLine(`key ${number} signs from the next head on; ${before}`)
    return 0
  }, config)
}

const acceptRestore = (): Promise<number> =>
  withStationDatabase(async ({ sql }) => {
    printLine(`${await acceptUnmatchedPublishedTreeHeads(sql)} heads accepted as lost by a restore`)
    return 0
  })
