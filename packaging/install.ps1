# Installs the program of a release of Quarry for Windows, into QUARRY_INSTALL_DIR or LOCALAPPDATA\Programs\quarry. A release
# has this file with its own address below; QUARRY_DOWNLOAD_URL names another.
$ErrorActionPreference = 'Stop'
$releaseUrl = ''

$url = if ($env:QUARRY_DOWNLOAD_URL) { $env:QUARRY_DOWNLOAD_URL } else { $releaseUrl }
if (-not $url) { throw 'no release is named here; take install.ps1 from a release, or set QUARRY_DOWNLOAD_URL' }
$directory = if ($env:QUARRY_INSTALL_DIR) { $env:QUARRY_INSTALL_DIR } else { Join-Path $env:LOCALAPPDATA 'Programs\quarry' }
$name = 'quarry-x86_64-pc-windows-msvc'
$scratch = Join-Path ([IO.Path]::GetTempPath()) ([IO.Path]::GetRandomFileName())
New-Item -ItemType Directory -Path $scratch | Out-Null
try {
    $archive = Join-Path $scratch "$name.zip"
    Invoke-WebRequest -UseBasicParsing "$url/$name.zip" -OutFile $archive
    Invoke-WebRequest -UseBasicParsing "$url/$name.zip.sha256" -OutFile "$archive.sha256"
    $expected = (Get-Content "$archive.sha256" -Raw).Split(' ')[0]
    if ((Get-FileHash $archive -Algorithm SHA256).Hash -ne $expected) {
        throw "$url/$name.zip: its checksum is another; download it again"
    }
    Expand-Archive $archive -DestinationPath $scratch
    New-Item -ItemType Directory -Force -Path $directory | Out-Null
    Copy-Item (Join-Path $scratch "$name\quarry.exe") $directory -Force
    Copy-Item (Join-Path $scratch "$name\models") $directory -Recurse -Force
    Write-Output "installed $(Join-Path $directory 'quarry.exe'); add $directory to PATH to call it as quarry"
} finally {
    Remove-Item -Recurse -Force $scratch
}
