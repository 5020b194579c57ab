import { parseTreeHead } from '../../../core/attestations/fee-attestations.ts'
import { signNote, toVerifierKeyText } from '../../../core/attestations/signed-note.ts'
import type { EncryptionKeys } from '../../../core/key-derivation-and-encryption.ts'
import { createAttestationSequencer } from '../../../jobs/attestation-sequencer.ts'
import {
  ensureAttestationKey,
  listAttestationKeys,
  readActiveAttestationSigningKeys,
} from '../../../persistence/attestations/attestation-key-store.ts'
import { createAttestationTreeReader } from '../../../persistence/attestations/attestation-tree-reader.ts'
import {
  appendFeesToAttestationTree,
  recordUnmatchedPublishedTreeHead,
} from '../../../persistence/attestations/attestation-tree-writer.ts'
import type { AggregateChanges } from '../../../persistence/commit-batch.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createAttestationHeadFile } from './attestation-tree-head-file.ts'
import type { Config } from '../../config.ts'

/** Composes the attestations: the tree of fees, its sequencer and its signer. */

export interface ComposeAttestationsDeps {
  readonly config: Pick<Config, 'dataDir'>
  readonly publicUrl: string
  readonly sql: Sql
  readonly sealing: EncryptionKeys
  readonly log: (message: string, error: unknown) => void
  readonly gatherMs?: number | undefined
}

const FEE_ACCOUNT = 'treasury:fees'

/** Creates the services of the attestations. The sequencer runs after `start`. */
export function composeAttestations({
  config,
  publicUrl,
  sql,
  sealing,
  log,
  gatherMs,
}: ComposeAttestationsDeps) {
  const { host, pathname } = new URL(publicUrl)
  const newOrigin = `${host}${pathname.replace(/\/$/, '')}/attestations`
  const tree = createAttestationTreeReader(sql)
  const file = createAttestationHeadFile(config.dataDir)
  const sequencer = createAttestationSequencer({
    append: () => appendFeesToAttestationTree({ sql, sealing, origin: newOrigin }),
    onHead: (note) => file.write(note),
    log,
    gatherMs,
  })

  const origin = async () => (await tree.origin()) ?? newOrigin
  const verifierKeys = async () => {
    const [name, keys] = await Promise.all([origin(), listAttestationKeys(sql)])
    return keys
      .filter(({ retired }) => !retired)
      .map(({ publicKey }) => toVerifierKeyText({ name, publicKey }))
  }

  /**
   * Looks for a head that this node once signed and that is not one of this tree. Its key may be gone as well, so
   * its signature is not asked for.
   */
  async function findRewind(): Promise<void> {
    const note = await file.read()
    const head = note === null ? null : parseTreeHead(note.slice(0, note.lastIndexOf('\n\n') + 1))
    if (head === null || note === null || head.origin !== (await origin())) return
    const summary = await tree.summary()
    const size = summary.head?.size ?? 0
    if (head.size <= size && (await tree.rootAt(head.size)).equals(head.root)) return
    await recordUnmatchedPublishedTreeHead(sql, { ...head, note })
    log(
      `the database is older than what this station published: a signed head has ${head.size} fees, the tree ${size}`,
      new Error('restored from an earlier backup? read docs/attestations.md'),
    )
  }

  return {
    /** Services for the routes. */
    served: {
      attestations: {
        tree,
        origin,
        verifierKeys,
        keys: () => listAttestationKeys(sql),
        sign: async (text: string) =>
          signNote(text, await readActiveAttestationSigningKeys(sql, sealing, await origin())),
      },
    },
    /** Called after each commit of this node. */
    committed(changes: readonly AggregateChanges[]): void {
      const hasFees = ({ prices, transfers }: AggregateChanges) =>
        prices.length > 0 ||
        transfers.some(({ debit, credit }) => credit === FEE_ACCOUNT || debit === FEE_ACCOUNT)
      if (changes.some(hasFees)) sequencer.wake()
    },
    async prepare(): Promise<void> {
      await ensureAttestationKey(sql, sealing)
      await findRewind()
    },
    start: () => sequencer.start(),
    stop: () => sequencer.stop(),
  }
}
