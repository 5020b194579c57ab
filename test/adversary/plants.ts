import { callPlants } from './call-plants.ts'
import { keyPlants } from './key-plants.ts'
import type { Plant } from './plant.ts'
import { storagePlants } from './storage-plants.ts'
import { valuePlants } from './value-plants.ts'

/** Every bug that was found once, for a copy of the service as it is now. */
export const PLANTS: Readonly<Record<string, Plant>> = {
  ...callPlants,
  ...valuePlants,
  ...keyPlants,
  ...storagePlants,
}
