import { toBase58 } from '../base58.ts'

/** The did:web document of a station: who it is and the keys that sign its attestations. */

/** The multicodec prefix of Ed25519 public keys. */
const ED25519_PUBLIC = Buffer.of(0xed, 0x01)

/** A public key in the form of Multikey documents. */
export const toMultibaseKey = (publicKey: Buffer): string =>
  `z${toBase58(Buffer.concat([ED25519_PUBLIC, publicKey]))}`

/** The id of the station of this address; a port is percent-encoded. */
function toDidOfUrl(publicUrl: string): string {
  const { host, pathname } = new URL(publicUrl)
  const parts = pathname.split('/').filter((part) => part !== '')
  return ['did', 'web', encodeURIComponent(host), ...parts].join(':')
}

/** A key of the station. `number` counts them; one that is retired signs nothing any more. */
export interface AttestationPublicKey {
  readonly number: number
  readonly publicKey: Buffer
  readonly retired: boolean
}

/** Builds the document. Keys that are retired stay listed, so that what they signed can be checked. */
export function buildDidDocument(publicUrl: string, keys: readonly AttestationPublicKey[]) {
  const id = toDidOfUrl(publicUrl)
  const nameOf = ({ number }: AttestationPublicKey) => `${id}#key-${number}`
  return {
    '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/multikey/v1'],
    id,
    verificationMethod: keys.map((key) => ({
      id: nameOf(key),
      type: 'Multikey',
      controller: id,
      publicKeyMultibase: toMultibaseKey(key.publicKey),
    })),
    assertionMethod: keys.filter(({ retired }) => !retired).map(nameOf),
    service: [{ id: `${id}#api`, type: 'GasStation', serviceEndpoint: publicUrl }],
  }
}
