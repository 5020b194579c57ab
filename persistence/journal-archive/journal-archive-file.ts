import { createHash, randomBytes, type Hash } from 'node:crypto'
import { open, readdir, rename, unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import { makeFolder } from '../make-folder.ts'

/**
 * The files of the journal: gzip, a line of JSON for each row. A file is a sequence of blocks, each a gzip
 * member of its own, so that some rows are read without the rest; `zcat` reads it as one text. Its name has
 * a part of its checksum: a file is never overwritten by another content.
 */

/** Large enough to compress well, small enough to read one for a few rows. */
export const JOURNAL_ARCHIVE_BLOCK_CHARS = 262_144
const FORMAT = 'gas-station journal, version 1'
const HASH_CHARS = 16
const PARTIAL = '.partial'

const compress = promisify(gzip)
const decompress = promisify(gunzip)

export interface JournalBlockPosition {
  readonly offset: number
  readonly bytes: number
}

export interface WrittenJournalArchive {
  readonly file: string
  readonly sha256: string
  readonly bytes: number
}

export interface JournalArchiveWriter {
  /** Writes lines as one block. */
  writeBlock(lines: readonly string[]): Promise<JournalBlockPosition>
  /** Gives the file its name once it is on the disk. */
  finish(): Promise<WrittenJournalArchive>
  /** Removes the file. */
  discard(): Promise<void>
}

/** Begins the file of a month, and removes what an interrupted run has left of it. */
export async function createJournalArchiveWriter(
  dir: string,
  month: string,
): Promise<JournalArchiveWriter> {
  makeFolder(dir, 0o700)
  await removePartialFiles(dir, month)
  const stem = `journal-${month}`
  const partial = join(dir, `${stem}.${randomBytes(4).toString('hex')}${PARTIAL}`)
  const handle = await open(partial, 'wx', 0o600)
  const hash = createHash('sha256')
  const state = { offset: 0, path: partial }
  const writeBlock = async (lines: readonly string[]): Promise<JournalBlockPosition> => {
    const block = await compress(Buffer.from(lines.map((line) => `${line}\n`).join('')))
    await writeWhole(handle, hash, block)
    const offset = state.offset
    state.offset += block.length
    return { offset, bytes: block.length }
  }
  await writeBlock([JSON.stringify({ format: FORMAT, month })])
  return {
    writeBlock,
    async finish() {
      await handle.sync()
      await handle.close()
      const sha256 = hash.digest('hex')
      const file = `${stem}-${sha256.slice(0, HASH_CHARS)}.ndjson.gz`
      await rename(partial, join(dir, file))
      state.path = join(dir, file)
      await syncDirectory(dir)
      return { file, sha256, bytes: state.offset }
    },
    async discard() {
      await handle.close().catch(() => {})
      await unlink(state.path).catch(() => {})
    },
  }
}

async function writeWhole(handle: FileHandle, hash: Hash, block: Buffer): Promise<void> {
  hash.update(block)
  for (let written = 0; written < block.length;)
    written += (await handle.write(block, written)).bytesWritten
}

async function removePartialFiles(dir: string, month: string): Promise<void> {
  for (const name of await readdir(dir))
    if (name.startsWith(`journal-${month}.`) && name.endsWith(PARTIAL))
      await unlink(join(dir, name))
}

/** A new name is on the disk once its directory is. */
async function syncDirectory(dir: string): Promise<void> {
  const handle = await open(dir, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** The lines of a block. Rejects with `ENOENT` for a missing file. */
export async function readJournalBlock(
  path: string,
  { offset, bytes }: JournalBlockPosition,
): Promise<string[]> {
  const handle = await open(path, 'r')
  try {
    const block = Buffer.alloc(bytes)
    const { bytesRead } = await handle.read(block, 0, bytes, offset)
    const text = (await decompress(block.subarray(0, bytesRead))).toString()
    return text.split('\n').slice(0, -1)
  } finally {
    await handle.close()
  }
}

/** The checksum and length of a file. Rejects with `ENOENT` for a missing one. */
export async function hashJournalArchive(
  path: string,
): Promise<Pick<WrittenJournalArchive, 'sha256' | 'bytes'>> {
  const handle = await open(path, 'r')
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of handle.createReadStream() as AsyncIterable<Buffer>) {
    hash.update(chunk)
    bytes += chunk.length
  }
  return { sha256: hash.digest('hex'), bytes }
}
