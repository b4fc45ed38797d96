module "network" {
  source = "./network"
  name   = lower(format("%s-a", var.name))
}

locals {
  files = toset(fileset(path.module, "*.txt"))
}
