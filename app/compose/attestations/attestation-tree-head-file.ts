import { open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'

/** The last signed head beside the database, so that a restored backup of the database is noticed. */

const FILE = 'attestation-head'

export interface AttestationHeadFile {
  /** The note of the head; null without one. */
  read(): Promise<string | null>
  write(note: string): Promise<void>
}

export function createAttestationHeadFile(dataDir: string): AttestationHeadFile {
  const path = join(dataDir, FILE)
  return {
    async read() {
      try {
        return await readFile(path, 'utf8')
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
        throw error
      }
    },
    async write(note) {
      const file = await open(`${path}.new`, 'w')
      try {
        await file.writeFile(note)
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(`${path}.new`, path)
      await syncFolder(dataDir)
    },
  }
}

/** Puts a rename on the disk: after a crash the file is this head or the one before it, never an empty one. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
